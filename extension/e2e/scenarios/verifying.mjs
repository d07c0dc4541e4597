// Verify after each kind of change, on a script whose times are known because it sleeps.
import * as fs from "node:fs";
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { seen, there, until } from "../workbench.mjs";
import { Window } from "../window.mjs";

const SCRIPT = fs.readFileSync(path.join(import.meta.dirname, "../scripts/slow/train.py"), "utf8");
const VERIFY_TIMEOUT_MS = 420_000;

export const verified = [
  { title: "verifying additions", run: additions },
  { title: "verifying a removal", run: aRemoval },
];

/**
 * Changes of one profile, each reverted before the next. The drag is last, because its save profiles the
 * script again.
 */
async function additions(context) {
  const window = await opened(context, "additions", SCRIPT, {});
  await aSwitch(window, context);
  await theBest(window, context);
  await aDrag(window, context);
  await window.close();
}

/** A switch: two workers read in parallel with the script, so that 62 ms per iteration become 31 ms. */
async function aSwitch(window, context) {
  const { check, eventually } = context;
  await window.toggle("num workers", true);
  await until(async () => (await window.line("DataLoader(Items()")).includes("num_workers="), "the code was not rewritten");
  check("the change is in the editor and unsaved", await window.isDirty());
  const gain = await measured(window, context, "a switch, unsaved");
  check("two workers make the script measurably faster", gain.low > 1.1);
  check("a valid gain is green", await coloured(window, gain, "better"));
  await takenBack(window, check, eventually);
  await context.shot(window, "verified-taken-back");
}

/** A drag: a larger batch in an iteration that waits 30 ms at every batch size. */
async function aDrag(window, context) {
  const { check, eventually, bench } = context;
  await window.drag("throughput", 0.8);
  const size = await until(async () => numberOf(await window.line("DataLoader(Items()")) !== 16 && numberOf(await window.line("DataLoader(Items()")), "the drag wrote no batch size");
  check(`the drag wrote ${size}`, size >= 24);
  const gain = await measured(window, context, "a drag, unsaved");
  check("the larger batch is measurably faster", gain.low > 1.03);

  await window.focusEditor();
  const text = await window.saved(path.join(bench.path("workspaces/verifying-additions"), "train.py"));
  check("the save writes the batch size", numberOf(text) === size);
  await window.runAgainEnded();
  await eventually("the new profile removes the result of the old one", async () => !(await newsOf(window)).includes("Verified") && !(await newsOf(window)).includes("It showed"));
  const again = await measured(window, context, "a change, saved and profiled");
  check("a saved change is compared with the text before it", again.low > 1.03);
  await takenBack(window, check, eventually);
}

async function theBest(window, context) {
  const { check, eventually } = context;
  const { view } = window;
  await view.locator('[data-key="best"]').click();
  const write = view.locator('[data-key="apply best"]');
  await there(write, "no combination was found");
  const said = (await view.locator(".verified", { has: write }).innerText()).replaceAll("\n", " ");
  const predicted = gainIn(said, /^(?<choices>.+?): (?<gain>.+?) samples\/s/);
  check(`the best combination has a gain with a range: ${said}`, predicted.low > 1 && predicted.low < predicted.value && predicted.value < predicted.high);
  await write.click();
  const line = () => window.line("DataLoader(Items()");
  for (const choice of predicted.choices.split(", ")) {
    const [name, value] = choice.split("=");
    if (name === "batch_size" || name === "num_workers") await eventually(`${choice} is in the code`, async () => (await line()).replaceAll(" ", "").includes(`${name}=${value}`));
  }
  const gain = await measured(window, context, "the best combination");
  check("the combination is measurably faster", gain.low > 1.1);
  await takenBack(window, check, eventually);
  check("one Undo reverts the whole combination", numberOf(await line()) === 16 && !(await line()).includes("num_workers"));
}

async function aRemoval(context) {
  const { check, eventually } = context;
  const window = await opened(context, "removal", SCRIPT.replace("batch_size=16", "batch_size=16, num_workers=2"));
  await window.toggle("num workers", false);
  await until(async () => !(await window.line("DataLoader(Items()")).includes("num_workers"), "the change was not removed from the code");
  const loss = await measured(window, context, "a removal");
  check("the script is measurably slower without its workers", loss.high < 0.95);
  check("a loss is not green", await coloured(window, loss, "worse"));
  check("a removal has no prediction", /without a prediction|It showed/.test(await newsOf(window)));
  await takenBack(window, check, eventually);
  await eventually("after Undo, the switch is on again", () => window.isOn("num workers"));
  await window.close();
}

/** Open and profile a script. Predictions for other batch sizes need settings with trials. */
async function opened({ bench }, name, script, settings = NO_TRIALS) {
  const folder = bench.workspace(`verifying-${name}`, { "train.py": script, ".vscode/settings.json": JSON.stringify(settings) });
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  return window;
}

/** Press Verify, wait for its end, and return the measured gain. */
export async function measured(window, { check, leftOut, shot }, what) {
  const { view } = window;
  await view.locator(".actions button", { hasText: "Verify" }).click();
  await seen(view.locator(".actions button", { hasText: "Verifying…" }));
  await until(async () => (await view.locator(".actions button", { hasText: "Verifying…" }).count()) === 0, "the verification did not end", VERIFY_TIMEOUT_MS);
  const said = await newsOf(window);
  await shot(window, `verified-${what.replaceAll(/[ ,]+/g, "-")}`);
  const valid = said.includes("Verified: ");
  // Only other programs may make a measurement invalid. The view must show its number nevertheless.
  if (!valid && /noisy: /.test(said)) leftOut(`that the verification of ${what} is valid: ${said}`);
  else check(`Verify measures ${what}: ${said}`, valid && /(Predicted → measured|Measured) .* per iteration/.test(said));
  return { ...gainIn(said, /(Verified: |It showed )(?<gain>.+?) samples\/s/), valid };
}

async function takenBack(window, check, eventually) {
  await window.view.locator(".actions button", { hasText: "Undo" }).click();
  await eventually("Undo removes the change and its result", async () => !(await newsOf(window)).includes("Verified") && !(await newsOf(window)).includes("It showed"));
  check("the view has no button Undo any more", (await window.view.locator(".actions button", { hasText: "Undo" }).count()) === 0);
}

async function coloured(window, { valid }, colour) {
  const classes = await window.view.locator(".news .verified").first().getAttribute("class");
  return classes.includes(valid ? colour : "worse");
}

async function newsOf(window) {
  return (await window.view.locator(".news").innerText()).replaceAll("\n", " ");
}

/** The factors in a text such as `+27 % (+20 % to +33 %)` or `12× (11× to 13×)`. */
function gainIn(said, pattern) {
  const { gain, choices } = pattern.exec(said)?.groups ?? {};
  if (!gain) throw new Error(`no gain in: ${said}`);
  const factors = [...gain.matchAll(/([+-]?[\d.]+) ?(%|×)/gu)].map(([, number, unit]) => (unit === "×" ? Number(number) : 1 + Number(number) / 100));
  const [value, low = value, high = value] = factors;
  return { value, low, high, choices };
}

function numberOf(text) {
  return Number(/batch_size=(\d+)/.exec(text)?.[1]);
}
