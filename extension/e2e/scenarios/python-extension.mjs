// A Python extension that is broken, in four ways, and a server that never answers: the view never waits for ever.
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "python extension";

const ID = "ms-python.python";
const NEVER = "new Promise(() => {})";
const LISTENER = "onDidChangeActiveEnvironmentPath: () => ({ dispose() {} })";
const CASES = [
  ["throws where it is asked", `return { get environments() { throw new Error("broken on purpose"); } };`, /did not report its environment: broken on purpose/],
  ["throws where it names the environment", `return { environments: { ${LISTENER}, getActiveEnvironmentPath() { throw new Error("no path on purpose"); } } };`, /did not report its environment: no path on purpose/],
  ["never resolves the environment", `return { environments: { ${LISTENER}, getActiveEnvironmentPath: () => ({ path: "/nowhere" }), resolveEnvironment: () => ${NEVER} } };`, /did not report its environment: the Python extension did not answer within 5 s/],
  ["never comes up", `return ${NEVER};`, /did not report its environment: the Python extension did not answer within 10 s/],
];

/** Put an extension of this id where the workbench keeps them; windows that are opened from now on have it. */
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
  // Its minute passes while the others are looked at.
  const silent = await silentServer(context);
  await Promise.all([broken(context), told(context, silent)]);
}

async function broken({ bench, python, script, check }) {
  for (const [index, [how, body, reason]] of CASES.entries()) {
    const remove = install(bench, body);
    try {
      // Without the setting the Python extension is asked.
      const settings = JSON.stringify({ "skyline.interpreter": null });
      const folder = bench.workspace(`python-extension-${index}`, { "train.py": script, ".vscode/settings.json": settings });
      // The next candidate after the Python extension's.
      fs.symlinkSync(path.dirname(path.dirname(python)), `${folder}/.venv`);
      const window = await Window.open(bench, folder, "train.py");
      await window.showView();
      await window.seesLens("Profile this training script", 120_000);
      check(`where it ${how} the invitation comes all the same`, true);
      await seen(window.view.locator("button", { hasText: "Profile Training Script" }));
      check("the view has left its start behind", (await window.view.locator("text=Starting Skyline").count()) === 0);
      await until(() => reason.test(bench.extensionLog()), "the reason is not in the log");
      check("the log says why", true);
      await window.close();
    } finally {
      remove();
    }
  }
}

/** A window whose interpreter answers for what it has, as the real one does under its own name, but serves nothing. */
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
  await seen(trouble, "a server that never answers is waited for in silence", 150_000);
  check("a server that never answers is told after a minute", (await window.view.locator("text=Starting Skyline").count()) === 0);
  check("with both ways out", (await trouble.locator("button").allInnerTexts()).join() === "Show Logs,Restart Server");
  const toasts = window.page.locator(".notifications-toasts .notification-toast");
  // The view may know before the notification is drawn.
  await eventually("and said by a notification", async () => (await toasts.count()) > 0);
  check("once", (await toasts.count()) === 1);
  fs.writeFileSync(silent, `#!/bin/sh\nexec '${python}' "$@"\n`, { mode: 0o755 });
  await trouble.locator("button", { hasText: "Restart Server" }).click();
  await window.seesLens("Profile this training script", 120_000);
  await until(async () => (await window.view.locator(".trouble").count()) === 0, "the trouble stays on show");
  check("started again by the button, it works", true);
  await window.close();
}
