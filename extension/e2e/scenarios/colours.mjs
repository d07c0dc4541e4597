// Compares the figures and colours of the what-ifs in the view with the estimates of the command line.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";
import { until } from "../workbench.mjs";

export const title = "colours";

/** A smaller change of the speed is shown as 0 %. */
const NOTHING = 5e-4;
/** A range with at least this ratio of its ends that includes no change is shown as not known. */
const WIDE = 4;
const COLOURS = { better: "green", worse: "red" };

export async function run({ bench, python, script, check, measured, shot }) {
  // The script is large enough for a prediction of torch.compile.
  const files = { "train.py": script, ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never" }) };
  const folder = bench.workspace("colours", files);
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  const name = await until(() => bench.profiles("colours")[0], "no profile was saved");
  const told = execFileSync(python, ["-m", "skyline", "whatif", "--json", "-", path.join(folder, ".skyline", name)], { encoding: "utf8", cwd: folder });
  const estimates = JSON.parse(told).estimates.filter((one) => one.applicable && one.name !== "batch_size");
  check(`the command line answers ${estimates.length} what-ifs of the same profile`, estimates.length > 3);
  const { view } = window;
  const ink = (colour) => view.locator("body").evaluate((body, name) => {
    const probe = document.createElement("span");
    probe.style.color = getComputedStyle(body).getPropertyValue(`--vscode-charts-${name}`);
    body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }, colour);
  const inks = { better: await ink(COLOURS.better), worse: await ink(COLOURS.worse) };
  check(`green and red are different colours: ${inks.better}, ${inks.worse}`, inks.better !== inks.worse);
  const seen = { better: 0, worse: 0, "": 0 };
  for (const estimate of estimates) {
    const row = view.locator(".whatif", { has: view.locator(`[data-key="whatif ${estimate.name}"]`) });
    if ((await row.count()) !== 1) throw new Error(`there is no row of ${estimate.name}`);
    const gain = row.locator(".gain");
    const [shown, colour] = [await gain.innerText(), await gain.evaluate((one) => getComputedStyle(one).color)];
    const wanted = direction(estimate);
    seen[wanted] += 1;
    const right = wanted ? colour === inks[wanted] : colour !== inks.better && colour !== inks.worse;
    if (!right) throw new Error(`${estimate.name}: ${shown} is ${colour}, and its range is ${JSON.stringify(estimate.speedup_range)}`);
    const percent = (estimate.speedup - 1) * 100;
    // On a busy machine a range can be too wide for a figure.
    const same = tellsNothing(estimate) ? shown === "not known" : shown.endsWith("×") ? Math.abs(Number.parseFloat(shown) - estimate.speedup) < 0.51 : Math.abs(Number.parseFloat(shown) - percent) < 0.51;
    if (!same) throw new Error(`${estimate.name} shows ${shown} for ${percent} %`);
    const text = (await row.innerText()).replaceAll("\n", " ");
    if (/±0(\.0+)? (ms|µs|s|[kMG]?B)/.test(text)) throw new Error(`the spread is zero: ${text}`);
    const cost = /costs ([\d.]+) (s|min|h) once/.exec(text);
    if ((estimate.one_off_s !== null && estimate.one_off_s.value > 0) !== (cost !== null)) throw new Error(`the one-off cost is ${JSON.stringify(estimate.one_off_s)}: ${text}`);
    if (cost) {
      const seconds = Number(cost[1]) * { s: 1, min: 60, h: 3600 }[cost[2]];
      check(`${estimate.name} shows its one-off cost: ${cost[0]}`, Math.abs(seconds / estimate.one_off_s.value - 1) < 0.15);
      const after = estimate.break_even_iterations;
      check("the row shows the break-even point", text.includes(after === null ? "never paid back" : `paid back after ${after.toLocaleString("en")} iterations`));
    }
  }
  measured("rows by colour", JSON.stringify(seen));
  check("each row has its figure, and the colour of its range", seen.better + seen.worse + seen[""] === estimates.length);
  check("torch.compile has a row with its one-off cost", estimates.some((one) => one.name === "compile" && one.one_off_s !== null));
  await shot(window, "colours");
  fs.rmSync(path.join(folder, ".skyline"), { recursive: true, force: true });
  await window.close();
}

function tellsNothing({ speedup_range: range }) {
  return Boolean(range) && range.low < 1 && range.high > 1 && range.high >= WIDE * range.low;
}

function direction({ speedup, speedup_range: range }) {
  if (!range || Math.abs(speedup - 1) < NOTHING) return "";
  if (range.low > 1) return "better";
  return range.high < 1 ? "worse" : "";
}
