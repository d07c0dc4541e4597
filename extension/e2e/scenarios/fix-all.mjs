// A save that asks for everybody's fixes changes no training code; one that asks for Skyline's by name does.
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";

export const title = "fix all";

const FUSED = "fused=True";

export async function run({ bench, script, check }) {
  const settings = (onSave) => JSON.stringify({ "skyline.profile.onSave": "never", "skyline.profile.steps": 4, "editor.codeActionsOnSave": onSave });
  const folder = bench.workspace("fix-all", { "train.py": script, ".vscode/settings.json": settings({}) });
  const file = path.join(folder, "train.py");
  const window = await Window.open(bench, folder, "train.py");
  const save = async (comment) => {
    await window.focusEditor();
    await window.page.keyboard.press("Control+Home");
    await window.page.keyboard.type(`# ${comment}\n`);
    return window.saved(file);
  };
  const onSave = async (actions) => {
    fs.writeFileSync(path.join(folder, ".vscode/settings.json"), settings(actions));
    await window.page.waitForTimeout(3000);
  };
  await window.seesLens("Profile this training script");
  await window.clickLens("Profile this training script", async () => (await window.lens("Profile this training script").count()) === 0, "the run did not start");
  await window.profiled();

  // First and last what does change the code: in between, the settings are in force as well.
  const byName = async () => {
    await onSave({ "source.fixAll.skyline": "explicit" });
    const text = await save("all of Skyline's");
    check("a save with source.fixAll.skyline makes the safe changes", text.startsWith("# all of Skyline's\n") && text.includes(FUSED));
  };
  await byName();
  await onSave({});
  await window.focusEditor();
  await window.page.keyboard.press("Control+a");
  await window.page.keyboard.insertText(script);
  check("without them a save writes what was typed", (await window.saved(file)) === script);
  for (const when of ["explicit", "always", true]) {
    await onSave({ "source.fixAll": when });
    const text = await save(`saved with ${when}`);
    check(`a save with source.fixAll "${when}" writes what was typed`, text.startsWith(`# saved with ${when}\n`));
    check("and changes no code", !text.includes(FUSED));
  }
  await byName();
  await window.close();
}
