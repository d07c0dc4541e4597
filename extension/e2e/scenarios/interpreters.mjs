// An interpreter without PyTorch and a missing interpreter: each gets one message with the next step.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "interpreters";

export async function run({ bench, python, script, check }) {
  execFileSync(python, ["-m", "venv", "--without-pip", bench.path("bare")]);
  const cases = [
    ["without PyTorch", bench.path("bare/bin/python"), /has no PyTorch/],
    ["that does not exist", "/nowhere/bin/python", /There is no Python at \/nowhere/],
  ];
  for (const [name, interpreter, message] of cases) {
    const settings = ".vscode/settings.json";
    const folder = bench.workspace(name.replaceAll(" ", "-"), { "train.py": script, [settings]: JSON.stringify({ "skyline.interpreter": interpreter }) });
    const window = await Window.open(bench, folder, "train.py");
    await seen(window.notification(message));
    check(`an interpreter ${name} gets a message`, true);
    check(`the message is shown once, with the button Select Interpreter`, (await window.page.locator(".notifications-toasts .notification-toast").count()) === 1 && (await window.notification(message).locator(".monaco-button", { hasText: "Select Interpreter" }).count()) === 1);
    await window.showView();
    await seen(window.view.locator(".trouble", { hasText: message }));
    check("the view shows the same message", true);
    fs.writeFileSync(`${folder}/${settings}`, JSON.stringify({ "skyline.interpreter": python }));
    await window.seesLens("Profile this training script");
    check("with a usable interpreter in the settings, the server starts automatically", (await until(async () => (await window.view.locator(".trouble").count()) === 0, "the view still shows the error")) === true);
    await window.close();
  }
}
