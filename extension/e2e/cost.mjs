// Measures the extension's cost: load, activation and idle windows. Prints JSON.
// benchmarks/extension_cost.py runs this file.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { parseArgs } from "node:util";
import { Window } from "./window.mjs";
import { seen, until, Workbench } from "./workbench.mjs";

const HERE = import.meta.dirname;
const PLAIN = { "plain.py": "print('no training here')\n" };
const TICKS_PER_SECOND = 100;

const { values: options } = parseArgs({
  options: { vsix: { type: "string" }, python: { type: "string" }, windows: { type: "string" }, seconds: { type: "string" } },
});
const windows = Number(options.windows ?? 5);
const seconds = Number(options.seconds ?? 30);
const settled = (page) => page.waitForTimeout(8000);

/** A process and its descendants whose command line contains `part`. */
function processes(root, part) {
  const parents = new Map();
  const lines = new Map();
  for (const name of fs.readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, "utf8");
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
      lines.set(Number(name), fs.readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " "));
    } catch {
      // The process has ended in the meantime.
    }
  }
  const below = (id) => id === root || (parents.has(id) && below(parents.get(id)));
  return [...parents.keys()].filter((id) => below(id) && lines.get(id)?.includes(part));
}

function cpuMs(ids) {
  const ticks = ids.map((id) => {
    const stat = fs.readFileSync(`/proc/${id}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[11]) + Number(fields[12]);
  });
  return (1000 / TICKS_PER_SECOND) * ticks.reduce((sum, one) => sum + one, 0);
}

/** CPU time of the processes in an idle window, in ms per second. */
async function idle(bench, page, part) {
  const ids = processes(bench.processId, part);
  const before = cpuMs(ids);
  await page.waitForTimeout(1000 * seconds);
  return { processes: ids.length, cpuMsPerS: (cpuMs(ids) - before) / seconds };
}

async function inWorkbench(settings, use) {
  const bench = await Workbench.start(settings);
  try {
    return await use(bench);
  } finally {
    await bench.stop();
  }
}

/** The time to read and run the extension's own file. A stand-in replaces the editor's interface. */
function loadMs() {
  const code = `
    const Module = require("node:module");
    const own = Module._load;
    const anything = new Proxy(class {}, { get: (target, key) => (key === "prototype" ? target.prototype : anything), construct: () => ({}), apply: () => anything });
    Module._load = (name, ...rest) => (name === "vscode" ? anything : own(name, ...rest));
    const start = performance.now();
    require(${JSON.stringify(path.join(HERE, "../dist/extension.js"))});
    console.log(performance.now() - start);`;
  return Number(execFileSync(process.execPath, ["-e", code], { encoding: "utf8" }));
}

const python = path.resolve(options.python);
const host = "--type=extensionHost";
const without = await inWorkbench({ vsix: null, python }, async (bench) => {
  const { page } = await Window.open(bench, bench.workspace("plain", PLAIN), "plain.py");
  await settled(page);
  return idle(bench, page, host);
});
const found = await inWorkbench({ vsix: path.resolve(options.vsix), python }, async (bench) => {
  const activations = () => [...bench.extensionLog().matchAll(/activated in ([\d.]+) ms/g)].map((match) => Number(match[1]));
  const folder = bench.workspace("plain", PLAIN);
  for (let count = 1; count <= windows; count += 1) {
    const window = await Window.open(bench, folder, "plain.py");
    await until(() => activations().length >= count, "the extension was not activated", 120_000);
    if (count < windows) await window.close();
    else {
      await settled(window.page);
      const plain = await idle(bench, window.page, host);
      const servers = processes(bench.processId, "run_skyline.py").length;
      await window.close();
      const training = bench.workspace("main", { "train.py": fs.readFileSync(path.join(HERE, "scripts/train.py"), "utf8") });
      execFileSync(python, ["-m", "skyline", "profile", "-q", "train.py"], { cwd: training, stdio: "ignore" });
      const { page, view } = await Window.open(bench, training, "train.py");
      const shown = new Window(bench, page);
      await shown.profiled();
      await seen(view.locator(".track").first());
      await settled(page);
      const [own, server] = [await idle(bench, page, host), await idle(bench, page, "run_skyline.py")];
      return { activationMs: activations().slice(0, windows), plain, serversInPlainWindow: servers, training: { host: own, server } };
    }
  }
});
console.log(JSON.stringify({ loadMs: Array.from({ length: windows }, loadMs), withoutExtension: without, ...found, seconds }));
