// Code actions on save: `source.fixAll` does not change training code, `source.fixAll.skyline` does.
import * as path from "node:path";
import { filesOf, NO_TRIALS, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";

export const fixedAll = ofEachKind("fix all", run, ["dataclass"]);

const FUSED = "fused=True";

async function run({ bench, check }, kind) {
  const script = filesOf(kind)["train.py"];
  const files = (onSave) => ({ ...filesOf(kind), ".vscode/settings.json": JSON.stringify({ ...NO_TRIALS, "skyline.profile.onSave": "never", "skyline.profile.steps": 4, "editor.codeActionsOnSave": onSave }) });
  /** The file after a comment is typed and saved in a new window with these settings. */
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
  check("a save with source.fixAll writes only the typed text", plain === `# Typed.\n${script}`);
  // The check with Skyline's own kind shows that the setting works and that the script has something to fix.
  const named = await saved({ "source.fixAll.skyline": "explicit" }, false);
  check("a save with source.fixAll.skyline makes the safe changes", named.startsWith("# Typed.\n") && named.includes(FUSED));
  const always = await saved({ "source.fixAll": "always" }, false);
  check("a save with source.fixAll set to always writes only the typed text", always === `# Typed.\n${script}`);
  const yes = await saved({ "source.fixAll": true }, false);
  check("a save with source.fixAll set to true, the older form, writes only the typed text", yes === `# Typed.\n${script}`);
}
