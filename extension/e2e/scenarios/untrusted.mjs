// An untrusted workspace: the view shows its saved profile, and no script runs.
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
  // The log is written with a delay.
  const bundled = () => /run_skyline\.py --bundled lsp/.test(bench.extensionLog());
  check("the bundled server starts", await until(bundled, "another server was started"));
  check("the view shows the saved profile", /per iteration/.test(await window.view.locator(".stats").innerText()));
  check("the view has no button that runs the script", (await window.view.locator("button", { hasText: /Profile|Verify|Predict/ }).count()) === 0);
  const profiles = fs.readdirSync(`${folder}/.skyline`).length;
  await window.focusEditor();
  await window.command("Skyline: Profile Training Script");
  await seen(window.notification("until you trust this workspace"));
  check("the command to profile shows why it does not run", true);
  check("the interpreter in the workspace was not run", !fs.existsSync(bench.path("was-run")));
  check("no run saved a profile", fs.readdirSync(`${folder}/.skyline`).length === profiles);
  await window.close();
}
