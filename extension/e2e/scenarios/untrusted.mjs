// A workspace that is not trusted: its saved profile is shown, and nothing is run.
import * as fs from "node:fs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "untrusted";

export async function run({ bench, script, saved, check }) {
  const folder = bench.workspace("foreign", { "train.py": script });
  fs.cpSync(saved, `${folder}/.skyline`, { recursive: true });
  const trap = `${folder}/.venv/bin/python`;
  fs.mkdirSync(`${folder}/.venv/bin`, { recursive: true });
  fs.writeFileSync(trap, `#!/bin/sh\ntouch ${bench.path("was-run")}\n`, { mode: 0o755 });
  fs.mkdirSync(`${folder}/.vscode`);
  fs.writeFileSync(`${folder}/.vscode/settings.json`, JSON.stringify({ "skyline.interpreter": trap }));
  const window = await Window.open(bench, folder, "train.py");
  await window.showView();
  await seen(window.view.locator(".track").first());
  // The log is written behind what it tells.
  const bundled = () => /run_skyline\.py --bundled lsp/.test(bench.extensionLog());
  check("the server that the extension brings will do", await until(bundled, "another server was started"));
  check("its saved profile is on show", /per iteration/.test(await window.view.locator(".stats").innerText()));
  check("without a button that runs it", (await window.view.locator("button", { hasText: /Profile|Verify|Predict/ }).count()) === 0);
  const profiles = fs.readdirSync(`${folder}/.skyline`).length;
  await window.focusEditor();
  await window.command("Skyline: Profile Training Script");
  await seen(window.notification("until you trust this workspace"));
  check("asked to run, it says why not", true);
  check("the interpreter in the workspace was not touched", !fs.existsSync(bench.path("was-run")));
  check("nothing was run", fs.readdirSync(`${folder}/.skyline`).length === profiles);
  await window.close();
}
