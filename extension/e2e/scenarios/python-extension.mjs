// A Python extension that is broken in four ways, and a server that never answers: the view does not wait
// forever.
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "python extension";

const ID = "ms-python.python";
const NEVER = "new Promise(() => {})";
const LISTENER = "onDidChangeActiveEnvironmentPath: () => ({ dispose() {} })";
const CASES = [
  ["throws when it is asked", `return { get environments() { throw new Error("broken on purpose"); } };`, /did not report its environment: broken on purpose/],
  ["throws when it names the environment", `return { environments: { ${LISTENER}, getActiveEnvironmentPath() { throw new Error("no path on purpose"); } } };`, /did not report its environment: no path on purpose/],
  ["never resolves the environment", `return { environments: { ${LISTENER}, getActiveEnvironmentPath: () => ({ path: "/nowhere" }), resolveEnvironment: () => ${NEVER} } };`, /did not report its environment: the Python extension did not answer within 5 s/],
  ["never comes up", `return ${NEVER};`, /did not report its environment: the Python extension did not answer within 10 s/],
];

/** Install an extension with this id and body in the workbench. Windows opened later have it. */
function install(bench, body) {
  const folder = bench.path(`extensions/${ID}-1.0.0`);
  fs.mkdirSync(folder, { recursive: true });
  const [publisher, name] = ID.split(".");
  const manifest = { name, publisher, version: "1.0.0", engines: { vscode: "^1.91.0" }, main: "./extension.js", activationEvents: [], contributes: {} };
  fs.writeFileSync(`${folder}/package.json`, JSON.stringify(manifest));
  fs.writeFileSync(`${folder}/extension.js`, `exports.activate = () => { ${body} };\n`);
  const list = bench.path("extensions/extensions.json");
  const others = JSON.parse(fs.readFileSync(list, "utf8")).filter(({ identifier }) => identifier.id !== ID);
  const location = { $mid: 1, path: folder, scheme: "file" };
  fs.writeFileSync(list, JSON.stringify([...others, { identifier: { id: ID }, version: "1.0.0", location, relativeLocation: `${ID}-1.0.0`, metadata: {} }]));
  return () => {
    fs.writeFileSync(list, JSON.stringify(others));
    fs.rmSync(folder, { recursive: true, force: true });
  };
}

export async function run(context) {
  // Its time limit of a minute passes while the other cases are checked.
  const silent = await silentServer(context);
  await Promise.all([broken(context), told(context, silent)]);
}

async function broken({ bench, python, script, check }) {
  for (const [index, [how, body, reason]] of CASES.entries()) {
    const remove = install(bench, body);
    try {
      // Without this setting, Skyline asks the Python extension.
      const settings = JSON.stringify({ "skyline.interpreter": null });
      const folder = bench.workspace(`python-extension-${index}`, { "train.py": script, ".vscode/settings.json": settings });
      // The next candidate after the Python extension's environment is the nearest .venv.
      fs.symlinkSync(path.dirname(path.dirname(python)), `${folder}/.venv`);
      const window = await Window.open(bench, folder, "train.py");
      await window.showView();
      await window.seesLens("Profile this training script", 120_000);
      check(`if the Python extension ${how}, the lens still offers a run`, true);
      await seen(window.view.locator("button", { hasText: "Profile Training Script" }));
      check("the view no longer shows the start", (await window.view.locator("text=Starting Skyline").count()) === 0);
      await until(() => reason.test(bench.extensionLog()), "the reason is not in the log");
      check("the log contains the reason", true);
      await window.close();
    } finally {
      remove();
    }
  }
}

/**
 * A window whose interpreter answers the probe like the real one, under its own path, but whose server never
 * answers.
 */
async function silentServer({ bench, python, script }) {
  const silent = bench.path("silent-python");
  const answer = `'${python}' "$@" | sed 's#"executable": *"[^"]*"#"executable": "${silent}"#'`;
  fs.writeFileSync(silent, `#!/bin/sh\ncase "$*" in *lsp*) exec sleep 600;; *) ${answer};; esac\n`, { mode: 0o755 });
  const settings = ".vscode/settings.json";
  const folder = bench.workspace("silent-server", { "train.py": script, [settings]: JSON.stringify({ "skyline.interpreter": silent }) });
  const window = await Window.open(bench, folder, "train.py");
  await window.showView();
  await seen(window.view.locator("text=Starting Skyline"));
  return { silent, window };
}

async function told({ python, check, eventually }, { silent, window }) {
  const trouble = window.view.locator(".trouble", { hasText: "did not answer within 60 s" });
  await seen(trouble, "the view does not report a server that never answers", 150_000);
  check("a server that never answers is reported after a minute", (await window.view.locator("text=Starting Skyline").count()) === 0);
  check("the report has the buttons Show Logs and Restart Server", (await trouble.locator("button").allInnerTexts()).join() === "Show Logs,Restart Server");
  const toasts = window.page.locator(".notifications-toasts .notification-toast");
  // The view may show the error before the notification.
  await eventually("a notification shows the error", async () => (await toasts.count()) > 0);
  check("the notification is shown once", (await toasts.count()) === 1);
  fs.writeFileSync(silent, `#!/bin/sh\nexec '${python}' "$@"\n`, { mode: 0o755 });
  await trouble.locator("button", { hasText: "Restart Server" }).click();
  await window.seesLens("Profile this training script", 120_000);
  await until(async () => (await window.view.locator(".trouble").count()) === 0, "the view still shows the error");
  check("Restart Server starts a working server", true);
  await window.close();
}
