// An interpreter with PyTorch that cannot run the bundled Skyline: one message with the reason and the next
// step.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "misfit";

export async function run({ bench, python, script, check }) {
  const env = bench.path("no-numpy");
  execFileSync(python, ["-m", "venv", "--without-pip", env]);
  const interpreter = path.join(env, "bin/python");
  const told = (executable, code) => execFileSync(executable, ["-c", code], { encoding: "utf8" }).trim();
  const from = told(python, "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))");
  const to = told(interpreter, "import sysconfig; print(sysconfig.get_path('purelib'))");
  // `pip install torch` does not install NumPy.
  for (const name of fs.readdirSync(from).filter((one) => /^torch(-.*\.dist-info)?$/.test(one))) {
    fs.symlinkSync(path.join(from, name), path.join(to, name));
  }
  const settings = ".vscode/settings.json";
  const folder = bench.workspace("misfit", { "train.py": script, [settings]: JSON.stringify({ "skyline.interpreter": interpreter }) });
  const window = await Window.open(bench, folder, "train.py");
  const message = `has no NumPy, which Skyline needs: run ${interpreter} -m pip install numpy`;
  await seen(window.notification(message));
  check("an interpreter without NumPy gets a message that says how to install it", true);
  await window.showView();
  await seen(window.view.locator(".trouble", { hasText: message }));
  check("the view shows the same message", true);
  const numpy = told(python, "import os, numpy; print(os.path.dirname(os.path.dirname(numpy.__file__)))");
  for (const name of fs.readdirSync(numpy).filter((one) => /^numpy([-.].*)?$/.test(one))) {
    fs.symlinkSync(path.join(numpy, name), path.join(to, name));
  }
  await window.command("Skyline: Restart Server");
  await window.seesLens("Profile this training script");
  check("with NumPy, the bundled Skyline starts", /run_skyline\.py lsp/.test(bench.extensionLog()));
  check("the view shows no error any more", (await until(async () => (await window.view.locator(".trouble").count()) === 0, "the view still shows the error")) === true);
  await window.close();
}
