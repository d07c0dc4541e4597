// The batch size in a settings file: the profile has the loader's batch size, and a curve over other batch
// sizes.
import * as fs from "node:fs";
import * as zlib from "node:zlib";
import { filesOf, kindNamed, WHOLE } from "../kinds.mjs";
import { seen, until } from "../workbench.mjs";
import { Window } from "../window.mjs";

export const title = "batch size";

const MS = { s: 1000, ms: 1, "µs": 0.001 };
/** Relative tolerance, because the figures in the headline are rounded. */
const ROUNDED = 0.02;

export async function run({ bench, check, measured }) {
  const { window, profile } = await profiled({ bench, check, measured }, kindNamed("yaml"));
  const { setting } = profile;
  const sizes = sizesTried(profile);
  check("the profile names the place of the batch size", setting.file.endsWith("config.yaml") && setting.line === 5 && setting.key === "train.batch_size" && setting.text === "16");
  check("other batch sizes were measured, although no literal in the code sets it", sizes.length >= 2 && sizes.every(({ ratios }) => ratios.length >= 2));
  check("a larger batch took more memory in its run", sizes.every(({ peak_bytes }, index) => index === 0 || peak_bytes > sizes[index - 1].peak_bytes));
  check("the page names the settings file", (await window.view.locator("body").innerText()).includes("config.yaml"));
  const curve = await window.view.locator("[aria-label^='Throughput over the batch size']").first().getAttribute("aria-label");
  measured("the curve", curve);
  check("the curve has every measured size", sizes.every(({ choices }) => new RegExp(`\\b${choices.batch_size}: \\d`).test(curve)));
  check("the settings file is unchanged", fs.readFileSync(bench.path("workspaces/size-yaml/config.yaml"), "utf8") === filesOf(kindNamed("yaml"))["config.yaml"]);
  await window.close();
}

/** Profile a script and check that the headline, the view and the profile have the loader's batch size. */
async function profiled({ bench, check, measured }, kind) {
  const folder = bench.workspace(`size-${kind.name}`, {
    ...filesOf(kind),
    ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never" }),
  });
  const window = await Window.open(bench, folder, "train.py", WHOLE);
  await window.profileNow();
  await seen(window.view.locator(".curve canvas"), "there is no curve", 60_000);
  await headlineAgrees({ window, check, measured }, kind);
  const profile = await until(() => saved(folder), "no profile was saved", 60_000);
  check(`${kind.name}: the profile has this batch size, too`, profile.batch_size === kind.own);
  return { window, profile };
}

/** Check the batch size in the headline (samples/s times the time per iteration) and in the view. */
export async function headlineAgrees({ window, check, measured }, { name, own }) {
  const headline = (await window.lens("peak").innerText()).replaceAll("\u00a0", " ");
  measured(name, headline);
  const [, time, unit] = /([\d.,]+) (s|ms|µs)\b.* per iteration/u.exec(headline) ?? [];
  const [, rate] = /([\d.,]+) (?:samples|images)\/s/u.exec(headline) ?? [];
  const samples = (number(time) * MS[unit] * number(rate)) / 1000;
  check(`${name}: samples/s times the time per iteration is ${own} samples`, Math.abs(samples / own - 1) < ROUNDED);
  check(`${name}: the view shows ${own}`, (await window.batchSizeShown()) === own);
}

function number(text) {
  return Number((text ?? "").replaceAll(",", ""));
}

/** The newest profile with a curve in the folder of the script. */
function saved(folder) {
  const beside = `${folder}/.skyline`;
  const names = fs.existsSync(beside) ? fs.readdirSync(beside).filter((name) => name.endsWith(".profile.json.gz")) : [];
  const read = names.map((name) => JSON.parse(zlib.gunzipSync(fs.readFileSync(`${beside}/${name}`))));
  return read.filter((profile) => sizesTried(profile).length > 1).sort((one, other) => other.created.localeCompare(one.created))[0];
}

/** The trials that differ from the script only in the batch size, smallest first. */
function sizesTried({ trials }) {
  return trials
    .filter(({ choices: { batch_size, threads, number_format, change } }) => batch_size && !threads && !number_format && !change)
    .sort((one, other) => one.choices.batch_size - other.choices.batch_size);
}
