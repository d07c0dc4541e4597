// Switching off removes a change byte for byte: after a formatter has reflowed the call, and a change that
// the user wrote.
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { until } from "../workbench.mjs";

export const title = "removing";

const CALL = "torch.optim.Adam(model.parameters(), lr=1e-3";
/** The call with the change after a formatter, and without the change. */
const REFLOWED = "torch.optim.Adam(\n        model.parameters(),\n        lr=1e-3,\n        fused=True,\n    )";
const WITHOUT = "torch.optim.Adam(\n        model.parameters(),\n        lr=1e-3,\n    )";
const PLAIN = "            loss = nn.functional.cross_entropy(model(x), y)\n";
const AUTOCAST = "            with torch.autocast(\"cpu\", dtype=torch.bfloat16):\n                loss = nn.functional.cross_entropy(model(x), y)\n";

export async function run(context) {
  await reflowed(context);
  await handwritten(context);
}

async function reflowed({ bench, script, check, shot }) {
  const { window, file, onDisk } = await opened(bench, "removing-reflowed", script);
  await window.toggle("fused optimizer", true);
  await until(async () => (await window.line("optim.Adam")).includes("fused=True"), "the code was not rewritten");
  await window.focusEditor();
  const saved = await window.saved(file);
  check("the change is on disk", saved.includes(`${CALL}, fused=True)`));
  // Another program formats the file, and the editor reloads it.
  const formatted = saved.replace(`${CALL}, fused=True)`, REFLOWED);
  bench.write(onDisk, formatted);
  const reflowedLine = window.page.locator(".monaco-editor .view-line", { hasText: /^\s*fused=True,/ });
  await until(async () => (await reflowedLine.count()) === 1, "the editor does not show the reflowed call");
  await until(() => window.isOn("fused optimizer"), "the switch of the reflowed change is not on");
  await shot(window, "reflowed");
  await window.toggle("fused optimizer", false);
  // The switch moves immediately, but the code changes later. Wait for it, so that the save includes the
  // change.
  await until(async () => (await reflowedLine.count()) === 0, "the change was not removed from the reflowed call");
  await window.focusEditor();
  const text = await window.saved(file);
  check("switched off after the formatter, exactly the change is removed from the reflowed call", text === formatted.replace(REFLOWED, WITHOUT));
  await window.close();
}

async function handwritten({ bench, script, check, shot }) {
  const own = script.replace(PLAIN, AUTOCAST);
  if (own === script) throw new Error("the script does not contain the expected loop");
  const { window, file } = await opened(bench, "removing-amp", own);
  await until(() => window.isOn("amp"), "the switch of handwritten autocast is not on");
  check("the switch of handwritten autocast is on", true);
  await shot(window, "amp-in-the-code");
  const autocast = window.page.locator(".monaco-editor .view-line", { hasText: "torch.autocast" });
  await window.toggle("amp", false);
  await until(async () => (await autocast.count()) === 0, "autocast was not removed from the code");
  await window.focusEditor();
  check("switching off removes exactly the autocast code", (await window.saved(file)) === script);
  await window.toggle("amp", true);
  await until(async () => (await autocast.count()) === 1, "autocast was not written again");
  await window.focusEditor();
  check("switching on again restores the handwritten code", (await window.saved(file)) === own);
  await window.close();
}

async function opened(bench, name, script) {
  const settings = JSON.stringify({ ...NO_TRIALS, "skyline.profile.onSave": "never" });
  const folder = bench.workspace(name, { "train.py": script, ".vscode/settings.json": settings });
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  return { window, file: path.join(folder, "train.py"), onDisk: `${name}/train.py` };
}
