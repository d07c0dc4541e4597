// A save that asks for everybody's fixes changes no training code; one that asks for Skyline's by name does.
import * as path from "node:path";
import { filesOf, NO_TRIALS, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";

export const fixedAll = ofEachKind("fix all", run, ["dataclass"]);

const FUSED = "fused=True";

async function run({ bench, check }, kind) {
  const script = filesOf(kind)["train.py"];
  const files = (onSave) => ({ ...filesOf(kind), ".vscode/settings.json": JSON.stringify({ ...NO_TRIALS, "skyline.profile.onSave": "never", "skyline.profile.steps": 4, "editor.codeActionsOnSave": onSave }) });
  /** What a save writes after a comment was typed, in a window that begins with these settings. */
  const saved = async (onSave, profile) => {
    const folder = bench.workspace(`fix-all-${kind.name}`, files(onSave));
    bench.forgetUnsaved();
    const window = await Window.open(bench, folder, "train.py", WHOLE);
    await (profile ? window.profileNow() : window.profiled());
    await window.focusEditor();
    await window.page.keyboard.press("Control+Home");
    await window.page.keyboard.type("# Typed.\n");
    const text = await window.saved(path.join(folder, "train.py"));
    await window.close();
    return text;
  };
  const plain = await saved({ "source.fixAll": "explicit" }, true);
  check("a save with source.fixAll writes what was typed, and changes no code", plain === `# Typed.\n${script}`);
  // The same with the name shows that such a setting is in force, and that there was something to fix.
  const named = await saved({ "source.fixAll.skyline": "explicit" }, false);
  check("a save with source.fixAll.skyline makes the safe changes", named.startsWith("# Typed.\n") && named.includes(FUSED));
  const always = await saved({ "source.fixAll": "always" }, false);
  check("nor does it with always", always === `# Typed.\n${script}`);
  const yes = await saved({ "source.fixAll": true }, false);
  check("nor with true, as older settings say it", yes === `# Typed.\n${script}`);
}
