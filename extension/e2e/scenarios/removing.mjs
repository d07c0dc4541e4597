// A switch that is off takes its change out to the byte, after a formatter has reflowed the call, or where a person wrote it.
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { until } from "../workbench.mjs";

export const title = "removing";

const CALL = "torch.optim.Adam(model.parameters(), lr=1e-3";
/** As a formatter writes the call with the change in it; and without it. */
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
  // Another program formats the file; the editor reads it again.
  const formatted = saved.replace(`${CALL}, fused=True)`, REFLOWED);
  bench.write(onDisk, formatted);
  const reflowedLine = window.page.locator(".monaco-editor .view-line", { hasText: /^\s*fused=True,/ });
  await until(async () => (await reflowedLine.count()) === 1, "the editor does not show the reflowed call");
  await until(() => window.isOn("fused optimizer"), "the reflowed change is not known as on");
  await shot(window, "reflowed");
  await window.toggle("fused optimizer", false);
  // The switch moves at once, and the code a moment later: saved before that, the file would be as it was.
  await until(async () => (await reflowedLine.count()) === 0, "the change was not taken out of the reflowed call");
  await window.focusEditor();
  const text = await window.saved(file);
  check("switched off after the formatter, exactly it is out of the reflowed call", text === formatted.replace(REFLOWED, WITHOUT));
  await window.close();
}

async function handwritten({ bench, script, check, shot }) {
  const own = script.replace(PLAIN, AUTOCAST);
  if (own === script) throw new Error("the script has another loop");
  const { window, file } = await opened(bench, "removing-amp", own);
  await until(() => window.isOn("amp"), "autocast that a person wrote is not a switch that is on");
  check("autocast that a person wrote is a switch that is on", true);
  await shot(window, "amp-in-the-code");
  const autocast = window.page.locator(".monaco-editor .view-line", { hasText: "torch.autocast" });
  await window.toggle("amp", false);
  await until(async () => (await autocast.count()) === 0, "autocast was not taken out of the code");
  await window.focusEditor();
  check("switched off, it is out of the code to the byte", (await window.saved(file)) === script);
  await window.toggle("amp", true);
  await until(async () => (await autocast.count()) === 1, "autocast is not in the code again");
  await window.focusEditor();
  check("and on again it is as the person wrote it", (await window.saved(file)) === own);
  await window.close();
}

async function opened(bench, name, script) {
  const settings = JSON.stringify({ ...NO_TRIALS, "skyline.profile.onSave": "never" });
  const folder = bench.workspace(name, { "train.py": script, ".vscode/settings.json": settings });
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  return { window, file: path.join(folder, "train.py"), onDisk: `${name}/train.py` };
}
