// The end-to-end suite: node e2e/run.mjs --vsix FILE --python PYTHON [--only NAME] [--screenshots DIR]
import * as fs from "node:fs";
import * as path from "node:path";
import { parseArgs } from "node:util";
import * as dragging from "./scenarios/dragging.mjs";
import * as editing from "./scenarios/editing.mjs";
import * as interpreters from "./scenarios/interpreters.mjs";
import * as profiling from "./scenarios/profiling.mjs";
import * as reloading from "./scenarios/reloading.mjs";
import * as rewriting from "./scenarios/rewriting.mjs";
import * as twoFiles from "./scenarios/two-files.mjs";
import * as untrusted from "./scenarios/untrusted.mjs";
import { takeScreenshots } from "./screenshots.mjs";
import { browserPath, Workbench } from "./workbench.mjs";
import { Window } from "./window.mjs";

const HERE = import.meta.dirname;
/** Those that share one window, in this order: each goes on where the one before it ended. */
const SHARED = [profiling, dragging, rewriting, editing, reloading, twoFiles];

const { values: options } = parseArgs({
  options: { vsix: { type: "string" }, python: { type: "string" }, only: { type: "string" }, screenshots: { type: "string" }, keep: { type: "boolean" } },
});
const vsix = path.resolve(options.vsix ?? "skyline.vsix");
const python = options.python ?? path.resolve(HERE, "../../../.venv/bin/python");
const read = (name) => fs.readFileSync(path.join(HERE, "scripts", name), "utf8");
const files = { "train.py": read("train.py"), "another.py": read("another.py") };
const began = Date.now();
let checks = 0;

const check = (what, holds) => {
  if (!holds) throw new Error(`not so: ${what}`);
  checks += 1;
  console.log(`  ok  ${what}`);
};
const measured = (what, value) => console.log(`      ${what}: ${value}`);

/** One scenario; the first failure ends the suite, and what is needed to see why is printed. */
async function scenario({ title, run }, context) {
  const start = Date.now();
  console.log(title);
  try {
    await run({ ...context, check, measured });
    console.log(`      ${((Date.now() - start) / 1000).toFixed(1)} s`);
  } catch (error) {
    const pages = context.bench.pages();
    fs.mkdirSync(path.join(HERE, "out"), { recursive: true });
    for (const [index, page] of pages.entries()) {
      await page.screenshot({ path: path.join(HERE, "out", `failed-${title.replaceAll(" ", "-")}-${index}.png`), timeout: 10_000 }).catch(() => {});
    }
    console.error(`  FAILED  ${title}: ${error.message}\n  pictures: ${path.join(HERE, "out")}\n--- the extension's log ---\n${context.bench.extensionLog().slice(-4000)}`);
    throw error;
  }
}

async function withWorkbench(settings, use) {
  const bench = await Workbench.start({ vsix, python, ...settings });
  try {
    return await use(bench);
  } finally {
    await bench.stop();
  }
}

async function main() {
  for (const needed of [vsix, python]) if (!fs.existsSync(needed)) throw new Error(`there is no ${needed}`);
  browserPath();
  const wanted = (module) => !options.only || module.title === options.only || module === profiling;
  const saved = fs.mkdtempSync(path.join(fs.realpathSync("/tmp"), "skyline-saved-"));
  try {
    await withWorkbench({}, async (bench) => {
      const window = await Window.open(bench, bench.workspace("main", files), "train.py");
      for (const module of SHARED) if (wanted(module)) await scenario(module, { bench, window });
      check("the page asked nothing of other machines", window.page.outside.length === 0);
      check("and kept to its content policy", window.page.violations.length === 0);
      const activation = Number(/activated in ([\d.]+) ms/.exec(bench.extensionLog())?.[1]);
      measured("activation, ms", activation);
      fs.cpSync(bench.path("workspaces/main/.skyline"), saved, { recursive: true });
      if (options.screenshots) await takeScreenshots(window, options.screenshots);
      await window.close();
      if (wanted(interpreters)) await scenario(interpreters, { bench, python, script: files["train.py"] });
      const quiet = await Window.open(bench, bench.workspace("plain", { "plain.py": "print('no training here')\n" }), "plain.py");
      await quiet.page.waitForTimeout(3000);
      check("a file that imports no PyTorch starts no server", !bench.extensionLog().split("activated in").at(-1).includes("starting:"));
      await quiet.close();
    });
    if (wanted(untrusted)) {
      await withWorkbench({ trust: true }, (bench) => scenario(untrusted, { bench, script: files["train.py"], saved }));
    }
  } finally {
    fs.rmSync(saved, { recursive: true, force: true });
  }
  console.log(`${checks} checks passed in ${((Date.now() - began) / 1000).toFixed(0)} s`);
}

try {
  await main();
} catch (error) {
  console.error(`e2e: ${error.message}`);
  process.exitCode = 1;
}
