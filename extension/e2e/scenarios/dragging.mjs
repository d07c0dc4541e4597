// A bar dragged: previewed while it moves, written when it is let go, taken back by one undo.
import { there, until } from "../workbench.mjs";

export const title = "dragging";

/** A change, or the words for one too small to print. */
const PREDICTED = /→|as now/;

export async function run({ window, check, measured }) {
  const { page, view } = window;
  await window.profiled();
  const before = await window.batchSizeInCode();
  let inBetween = "";
  let shown = "";
  let memory = "";
  await countFrames(window);
  await window.drag("throughput", 0.97, async () => {
    inBetween = await until(async () => {
      const text = await window.figure("throughput");
      return text.includes("→") && text;
    }, "nothing was predicted while the bar moved");
    check("nothing is written while the bar moves", (await window.batchSizeInCode()) === before && !(await window.isDirty()));
    memory = await window.figure("memory");
    shown = await view.locator('input[type="number"]').inputValue();
  });
  measured("frames a second while dragging", await framesASecond(window));
  check("both bars tell what is predicted", inBetween.includes("→") && PREDICTED.test(memory));
  const after = await until(async () => {
    const now = await window.batchSizeInCode();
    return now !== before && now;
  }, "the number was not written");
  check("let go, the batch size is in the code", after > before && String(after) === shown);
  check("unsaved", await window.isDirty());
  await there(page.locator(".monaco-editor .view-overlays .cdr").first());
  await until(async () => (await view.locator(".actions button", { hasText: "Diff" }).count()) > 0, "no diff is offered");
  await until(async () => (await window.figure("throughput")).includes("→"), "the prediction is not on show");
  check("the server predicts what is in the code", true);
  await window.seesLens("stale");
  check("the server knows that the code is another", true);

  await window.undo();
  await until(async () => (await window.batchSizeInCode()) === before, "the undo did not bring it back");
  check("one Ctrl+Z takes it back", !(await window.isDirty()));
  await until(async () => !(await window.figure("throughput")).includes("→"), "the view still shows the prediction");
  check("and the view with it", true);

  const track = view.locator('[data-bar="memory"] .track');
  await track.focus();
  await page.keyboard.press("PageUp");
  await until(async () => PREDICTED.test(await window.figure("memory")), "the keys do not move the bar");
  await page.keyboard.press("Enter");
  await until(async () => (await window.batchSizeInCode()) === 2 * before, "Enter did not write it");
  check("the keys do the same", true);
  await view.locator(".actions button", { hasText: "Take back" }).click();
  await until(async () => (await window.batchSizeInCode()) === before, "it was not taken back");
  check("and a button takes it back", true);
}

async function countFrames(window) {
  await window.view.locator("body").evaluate(() => {
    const times = [];
    globalThis.skylineFrames = times;
    const tick = (at) => {
      times.push(at);
      if (globalThis.skylineFrames === times) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
}

async function framesASecond(window) {
  return window.view.locator("body").evaluate(() => {
    const times = globalThis.skylineFrames;
    globalThis.skylineFrames = null;
    return times.length < 2 ? 0 : Math.round((1000 * (times.length - 1)) / (times.at(-1) - times[0]));
  });
}
