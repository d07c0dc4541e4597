// The end-to-end suite:
//   node e2e/run.mjs --vsix FILE --python PYTHON [--only NAME,…] [--all] [--retry] [--lanes N]
//                    [--screenshots DIR] [--states DIR]
import * as fs from "node:fs";
import * as path from "node:path";
import { parseArgs } from "node:util";
import { withArguments } from "./scenarios/arguments.mjs";
import { atTheLines } from "./scenarios/at-the-lines.mjs";
import * as batchSize from "./scenarios/batch-size.mjs";
import { changed } from "./scenarios/changing.mjs";
import { dragged } from "./scenarios/dragging.mjs";
import * as colours from "./scenarios/colours.mjs";
import { furtherTasks } from "./scenarios/further-tasks.mjs";
import * as editing from "./scenarios/editing.mjs";
import { fixedAll } from "./scenarios/fix-all.mjs";
import * as interpreters from "./scenarios/interpreters.mjs";
import * as modules from "./scenarios/modules.mjs";
import * as notebooks from "./scenarios/notebooks.mjs";
import * as misfit from "./scenarios/misfit.mjs";
import * as plain from "./scenarios/plain.mjs";
import * as planning from "./scenarios/planning.mjs";
import * as profiling from "./scenarios/profiling.mjs";
import * as pythonExtension from "./scenarios/python-extension.mjs";
import * as reloading from "./scenarios/reloading.mjs";
import * as removing from "./scenarios/removing.mjs";
import { reported } from "./scenarios/report.mjs";
import { savedByHand } from "./scenarios/saves.mjs";
import { tasks } from "./scenarios/tasks.mjs";
import * as twoFiles from "./scenarios/two-files.mjs";
import { sweeping } from "./scenarios/sweeping.mjs";
import * as untrusted from "./scenarios/untrusted.mjs";
import { verified } from "./scenarios/verifying.mjs";
import { inLanes, lanesFor } from "./lanes.mjs";
import { takeScreenshots } from "./screenshots.mjs";
import { browserPath, until, Workbench } from "./workbench.mjs";
import { Window } from "./window.mjs";

const HERE = import.meta.dirname;
const OUT = path.join(HERE, "out");
/** Scenarios that share one window, and the profile that the scenario `profiling` makes in it. */
const SHARED = [editing, reloading, twoFiles];
/** Scenarios that open their own windows. The one with the longest waiting time is first. */
const ALONE = [pythonExtension, batchSize, ...savedByHand, ...fixedAll, ...dragged, interpreters, plain, ...atTheLines, ...reported, ...withArguments, modules, notebooks, ...tasks, ...furtherTasks, misfit, colours, removing, planning, sweeping];
/** Scenarios that measure a script twice and compare the results. No other scenario runs at the same time. */
const MEASURING = [...changed, ...verified];

const { values: options } = parseArgs({
  options: {
    vsix: { type: "string" },
    python: { type: "string" },
    only: { type: "string" },
    all: { type: "boolean" },
    retry: { type: "boolean" },
    lanes: { type: "string" },
    screenshots: { type: "string" },
    states: { type: "string" },
  },
});
const vsix = path.resolve(options.vsix ?? "skyline.vsix");
const python = path.resolve(options.python ?? path.join(HERE, "../../.venv/bin/python"));
const read = (name) => fs.readFileSync(path.join(HERE, "scripts", name), "utf8");
const files = { "train.py": read("train.py"), "another.py": read("another.py") };
const unknown = (options.only?.split(",") ?? []).filter((name) => ![profiling, ...SHARED, ...ALONE, ...MEASURING, untrusted].some(({ title }) => title === name));
if (unknown.length > 0) {
  console.error(`e2e: there is no scenario ${unknown.join(", ")}`);
  process.exit(2);
}
const wanted = (module) => (options.only ? options.only.split(",").includes(module.title) : options.all || !module.further);
const failed = [];
/** Scenarios that passed only after a failure. */
const retried = [];
/** Checks that this machine does not allow. */
const skipped = [];
let checks = 0;

/** The output and the checks of a scenario. It is printed at the end, because scenarios run in parallel. */
class Account {
  #began = Date.now();
  #lines = [];

  say(line) {
    this.#lines.push(line);
  }

  get seconds() {
    return `${((Date.now() - this.#began) / 1000).toFixed(1)} s`;
  }

  check = (what, holds) => {
    if (!holds) throw new Error(`not so: ${what}`);
    checks += 1;
    this.say(`  ok  ${what} (${this.seconds})`);
  };

  /** Like `check`, but wait up to 30 s for the condition. */
  eventually = async (what, holds) => this.check(what, await until(holds, `not so: ${what}`, 30_000));

  measured = (what, value) => this.say(`      ${what}: ${value}`);

  /** Skip a check that the machine does not allow. */
  leftOut = (what) => {
    skipped.push(what);
    this.say(`  LEFT OUT  ${what}`);
  };

  print() {
    console.log(this.#lines.join("\n"));
  }
}

/** With --states, save a screenshot of the window for manual review. */
const shot = async (window, name) => {
  if (!options.states) return;
  fs.mkdirSync(options.states, { recursive: true });
  await window.page.screenshot({ path: path.join(options.states, `${name}.png`) });
};

/** Run a scenario. With --retry, repeat it up to twice after a failure. True if an attempt passes. */
async function scenario(module, context, again = async () => {}) {
  const attempts = options.retry && !module.once ? 3 : 1;
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const account = new Account();
    account.say(module.title);
    try {
      const { check, eventually, measured, leftOut } = account;
      await module.run({ ...context, check, eventually, measured, leftOut, shot });
      if (attempt > 1) retried.push(`${module.title} (attempt ${attempt} passed)`);
      account.say(`      ${account.seconds}`);
      account.print();
      return true;
    } catch (error) {
      await told(account, module.title, attempt, error, context.bench);
      account.print();
      await again();
    }
  }
  failed.push(module.title);
  return false;
}

/** Report a failure, and save screenshots and the log to find its cause. */
async function told(account, title, attempt, error, bench) {
  fs.mkdirSync(OUT, { recursive: true });
  const name = `failed-${title.replaceAll(" ", "-")}-${attempt}`;
  for (const [index, page] of bench.pages().entries()) {
    await page.screenshot({ path: path.join(OUT, `${name}-${index}.png`), timeout: 10_000 }).catch(() => {});
  }
  fs.writeFileSync(path.join(OUT, `${name}.log`), bench.extensionLog());
  account.say(`  FAILED  ${title}, attempt ${attempt}, after ${account.seconds}: ${error.stack}\n  screenshots and log: ${OUT}/${name}*`);
  account.say(`--- end of the extension's log ---\n${bench.extensionLog().slice(-3000)}\n---`);
}

/** Reopen the window with the original training script. Its saved profiles stay. */
async function freshWindow(bench, window) {
  await window?.close();
  bench.forgetUnsaved();
  return Window.open(bench, bench.workspace("main", files), "train.py");
}

/** Checks the page after the scenarios that used it. There is no retry, because it would get an unused page. */
const keptToItself = {
  title: "other machines",
  once: true,
  run({ bench, window: { page }, check, measured }) {
    check("the page sends no request to other machines", page.outside.length === 0);
    check("the page complies with its content security policy", page.violations.length === 0);
    measured("activation, ms", /activated in ([\d.]+) ms/.exec(bench.extensionLog())?.[1]);
  },
};

async function together(bench) {
  const shared = { bench, window: await freshWindow(bench) };
  const again = async () => {
    shared.window = await freshWindow(bench, shared.window);
  };
  const unprofiled = async () => {
    fs.rmSync(bench.path("workspaces/main/.skyline"), { recursive: true, force: true });
    await again();
  };
  if (!(await scenario(profiling, shared, unprofiled))) return;
  for (const module of SHARED) if (wanted(module)) await scenario(module, shared, again);
  await scenario(keptToItself, shared);
  if (options.screenshots) {
    shared.window = await freshWindow(bench, shared.window);
    await scenario({ title: "screenshots", run: ({ window }) => takeScreenshots(window, options.screenshots) }, shared, again);
  }
  await shared.window.close();
}

/**
 * Remove the windows and workspaces of a failed attempt, so that the next attempt does not find its profiles.
 */
async function cleared(bench) {
  for (const page of [...bench.pages(), ...bench.popUps()]) await page.close();
  bench.forgetUnsaved();
  const workspaces = bench.path("workspaces");
  for (const name of fs.existsSync(workspaces) ? fs.readdirSync(workspaces) : []) {
    if (name !== "main") fs.rmSync(path.join(workspaces, name), { recursive: true, force: true, maxRetries: 5 });
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

/** Run the scenarios of the shared window, then show its profiles in an untrusted workspace. */
async function withSaved(bench, context) {
  const saved = fs.mkdtempSync(path.join(fs.realpathSync("/tmp"), "skyline-saved-"));
  try {
    await together(bench);
    const profiles = bench.path("workspaces/main/.skyline");
    if (!wanted(untrusted) || !fs.existsSync(profiles)) return;
    fs.cpSync(profiles, saved, { recursive: true });
    if (fs.readdirSync(saved).length === 0) return;
    // Use the bundled Skyline, although the interpreter has Skyline installed.
    const settings = { "skyline.importStrategy": "useBundled" };
    await withWorkbench({ trust: true, settings }, (other) => scenario(untrusted, { bench: other, ...context, saved }));
  } finally {
    fs.rmSync(saved, { recursive: true, force: true });
  }
}

async function main() {
  for (const needed of [vsix, python]) if (!fs.existsSync(needed)) throw new Error(`there is no ${needed}`);
  browserPath();
  const began = Date.now();
  const context = { python, script: files["train.py"] };
  const job = (module) => (bench) => scenario(module, { bench, ...context }, () => cleared(bench));
  const beside = ALONE.filter(wanted).map(job);
  // This job is second, because it takes the longest after the first scenario.
  if ([profiling, ...SHARED, untrusted].some(wanted)) beside.splice(1, 0, (bench) => withSaved(bench, context));
  const lanes = lanesFor(beside, options.lanes && Number(options.lanes));
  await inLanes(lanes, beside, MEASURING.filter(wanted).map(job), (use) => withWorkbench({}, use));
  // Continuous integration repeats these lines at the end of its output.
  for (const one of skipped) console.log(`LEFT OUT: ${one}`);
  for (const one of retried) console.log(`RETRIED: ${one}`);
  if (failed.length > 0) throw new Error(`failed: ${failed.join(", ")}`);
  console.log(`${checks} checks passed in ${((Date.now() - began) / 1000).toFixed(0)} s`);
}

try {
  await main();
} catch (error) {
  console.error(`e2e: ${error.message}`);
  process.exitCode = 1;
}
