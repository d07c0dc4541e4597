// Changes in the code: they stay known and removable after edits, saves and new profiles.
import { filesOf, NO_TRIALS, numberIn, ofEachKind } from "../kinds.mjs";
import { there, until } from "../workbench.mjs";
import { Window } from "../window.mjs";
import { measured } from "./verifying.mjs";

/** The view shows a run within a second after the save that starts it. */
const QUIET_MS = 3000;
const COMMENT = "# A note of my own.";
/** The kinds whose batch size also changes: by a drag with auto save, and by the best combination. */
const [SAVED_BY_ITSELF, BEST] = ["argparse", "dataclass"];

export const changed = ofEachKind("changing", run, [SAVED_BY_ITSELF, BEST]);

async function run(context, kind) {
  const { bench, check, eventually } = context;
  const settings = [SAVED_BY_ITSELF, BEST].includes(kind.name) ? {} : NO_TRIALS;
  const files = { ...filesOf(kind), ".vscode/settings.json": JSON.stringify(settings) };
  const folder = bench.workspace(`changing-${kind.name}`, files);
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  const { page, view } = window;
  await window.profileNow();
  const onDisk = () => bench.read(`changing-${kind.name}/train.py`);
  const actions = async () => (await view.locator(".actions button").allInnerTexts()).join(" ");
  const fused = () => window.line("optim.Adam").then((line) => line.includes("fused=True"));
  const toggle = (what) => window.toggle("fused optimizer", what);

  await byTheVerdict(window, context);

  await toggle(true);
  await until(fused, "the code was not rewritten");
  await eventually("after switching on, the change is in the unsaved code", async () => (await window.isDirty()) && onDisk() === files["train.py"]);

  await measured(window, context, `a switch of the ${kind.name} script, unsaved`);
  await window.typeAtEnd("import torch", `  ${COMMENT}`);
  await eventually("after an unrelated edit the switch is still on", () => window.isOn("fused optimizer"));
  await toggle(false);
  await until(async () => !(await fused()), "the change was not removed");
  check("switched off after an unrelated edit, the change is removed and the edit stays", (await window.line("import torch")).includes(COMMENT));
  await window.undoAll();
  check("after undoing everything, the file is unchanged", !(await window.isDirty()));

  await toggle(true);
  await until(fused, "the code was not rewritten again");
  await window.focusEditor();
  const text = await window.saved(`${folder}/train.py`);
  check("a save writes the changed code", text.includes("fused=True"));
  await window.runAgainEnded();
  check("the view shows a new profile", /per iteration/.test(await view.locator(".stats").innerText()));
  await eventually("after the save and the new profile the switch is on", () => window.isOn("fused optimizer"));
  await eventually("the view has the buttons Diff, Undo and Verify", async () => /Diff.*Undo.*Verify/s.test(await actions()));
  await measured(window, context, `a switch of the ${kind.name} script, saved and profiled`);
  await view.locator(".actions button", { hasText: "Diff" }).click();
  await there(page.locator(".monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert").first());
  await eventually("the diff shows the change", async () => (await page.locator(".monaco-diff-editor .modified .view-line", { hasText: "fused" }).count()) > 0);
  await window.closeEditor();
  await until(async () => (await page.locator(".monaco-diff-editor").count()) === 0, "the diff did not close");
  await toggle(false);
  await until(async () => !(await fused()), "the change was not removed after the new profile");
  check("switched off after the new profile, the change is removed from the code", true);
  await window.focusEditor();
  check("the saved file equals the original byte for byte", (await window.saved(`${folder}/train.py`)) === files["train.py"]);
  await window.runAgainEnded();

  if (kind.name === BEST) await best(window, check, kind);
  await window.close();
  if (kind.name === SAVED_BY_ITSELF) await savedByItself(bench, check, kind, folder);
}

/**
 * The verdict at the top of the page: it names the bottleneck and a change, and a button makes the change.
 */
async function byTheVerdict(window, { check, eventually }) {
  const { view } = window;
  const verdict = view.locator(".verdict");
  const said = await verdict.innerText();
  check(`the verdict names what bounds the step and a gain: ${said.replaceAll("\n", " ")}`, /of the step\./.test(said) && /[\d.]+x/.test(said));
  await view.locator('[data-key="verdict change"]').click();
  await until(() => window.anyDirty(), "the recommended change was not written");
  await eventually("the button writes the verdict's change into the code", async () => /This change is in the code/.test(await verdict.innerText()));
  await view.locator(".actions button", { hasText: "Undo" }).click();
  await eventually("Undo reverts the verdict's change", async () => !/This change is in the code/.test(await verdict.innerText()));
  await window.undoAll();
}

/** A drag with auto save: the editor saves the batch size after the bar is released. */
async function savedByItself(bench, check, kind, folder) {
  bench.setUser({ "files.autoSave": "afterDelay", "files.autoSaveDelay": 200 });
  // The closed window may have left an outdated backup of its unsaved files.
  bench.forgetUnsaved();
  try {
    const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
    await window.profiled();
    await window.drag("throughput", 0.9);
    const shown = await until(async () => (await window.batchSizeShown()) !== kind.own && window.batchSizeShown(), "the drag did not change the batch size");
    await until(() => numberIn(kind, bench.read(`changing-${kind.name}/${kind.file}`)) === shown, "the editor did not save the batch size");
    const profiles = () => bench.profiles(`changing-${kind.name}`).length;
    const before = profiles();
    const runs = async () => (await window.view.locator("[data-key=again]", { hasText: "Cancel" }).count()) > 0;
    for (const end = Date.now() + QUIET_MS; Date.now() < end; await window.page.waitForTimeout(100)) {
      if (await runs()) throw new Error("an automatic save has started a run");
    }
    check("an automatic save starts no run", profiles() === before);
    const actions = async () => (await window.view.locator(".actions button").allInnerTexts()).join(" ");
    await until(async () => (await window.batchSizeShown()) === shown && /Diff.*Undo.*Verify/s.test(await actions()), `the buttons are missing after an automatic save: ${await actions()}`);
    check("after an automatic save, the view still has Diff, Undo and Verify", true);
    await window.focusEditor();
    await window.page.keyboard.press("Control+s");
    await until(runs, "a manual save after the automatic one started no run");
    await until(() => profiles() === before + 1, "the run saved no profile", 300_000);
    await window.runEnded();
    await until(async () => (await window.batchSizeShown()) === shown && /Diff.*Undo.*Verify/s.test(await actions()), `the buttons are missing after the new profile: ${await actions()}`);
    check("a manual save profiles again, and the view keeps the buttons", true);
    await window.view.locator(".actions button", { hasText: "Undo" }).click();
    await until(() => numberIn(kind, bench.read(`changing-${kind.name}/${kind.file}`)) === kind.own, "the batch size was not reverted");
    check("Undo reverts the batch size", true);
    await window.close();
  } finally {
    bench.setUser({ "files.autoSave": "off" });
  }
}

async function best(window, check, kind) {
  const { view } = window;
  await view.locator('[data-key="best"]').click();
  const write = view.locator('[data-key="apply best"]');
  await there(write);
  const said = await view.locator(".verified", { has: write }).innerText();
  // Gains of at least 10× are shown as factors: `26× (+666 % to 83×)`.
  const [value, low, high] = [...said.matchAll(/([+-]?[\d.]+) ?(%|×)/gu)].map(([, number, unit]) => (unit === "×" ? (Number(number) - 1) * 100 : Number(number)));
  check(`the best combination is within its range: ${said}`, low <= value && value <= high && low < high);
  await write.click();
  await until(() => window.anyDirty(), "the best combination was not written");
  const size = /batch_size=(\d+)/.exec(said)?.[1] ?? kind.own;
  await until(async () => numberIn(kind, await window.codeOf(kind)) === Number(size), `the code does not have the batch size ${size}`);
  check("the code has each choice of the combination", (await window.line("optim.Adam")).includes("fused=True") === said.includes("fused_optimizer"));
  await view.locator(".actions button", { hasText: "Undo" }).click();
  await until(async () => (await window.codeOf(kind)).includes(`${kind.before}${kind.own})`) && !(await window.line("optim.Adam")).includes("fused"), "the combination was not reverted completely");
  check("one click reverts the whole combination", true);
}
