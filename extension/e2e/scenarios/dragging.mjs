// Both bars dragged by hand, in each kind of script: the handle under the pointer, the figures, the number in the code.
import { filesOf, kindNamed, numberIn, WRITABLE } from "../kinds.mjs";
import { seen, there, until } from "../workbench.mjs";
import { Window } from "../window.mjs";

const PLACES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
/** Of a bar's width, between the pointer and the middle of the handle. */
const NEAR = 0.02;

export const dragged = [...WRITABLE.map((kind) => ({ title: `dragging ${kind.name}`, run: (context) => writable(context, kind) })), { title: "dragging yaml", run: readOnly }];

async function writable({ bench, check, eventually, measured }, kind) {
  const window = await opened(bench, kind);
  const { page, view } = window;
  const code = () => window.codeOf(kind);
  await eventually("the batch size in force is on show", async () => (await window.batchSizeShown()) === kind.own);
  for (const bar of ["throughput", "memory"]) {
    const track = await grabbed(window, bar);
    const { sizes, figures } = await swept(window, bar, track, check, async (shown) => {
      // The number itself: what is typed stays as it is, what is seen is the decoration.
      const wanted = shown === kind.own ? null : String(shown);
      await until(async () => (await window.liveNumber()) === wanted, `the code does not show ${shown} while the bar moves`);
    });
    check(`${kind.name}, ${bar}: the batch size rises with the pointer (${sizes.join(" ")})`, rises(sizes));
    check(`${kind.name}, ${bar}: the figures change with it`, new Set(figures).size >= new Set(sizes).size - 1);
    check("nothing is written while the bar moves", numberIn(kind, await code()) === kind.own && !(await window.anyDirty()));
    await page.mouse.move(track.x + track.width * 0.75, track.y, { steps: 6 });
    const shown = await settledSize(window);
    await page.mouse.up();
    await until(async () => numberIn(kind, await code()) === shown, `${shown} was on show, and is not what was written`);
    await eventually(`let go, the ${shown} on show stays on show`, async () => (await window.batchSizeShown()) === shown);
    await eventually("and is in the editor, unsaved", () => window.anyDirty());
    check("and not on disk", numberIn(kind, bench.read(`${kind.name}/${kind.file}`)) === kind.own);
    await until(async () => (await window.liveNumber()) === null, "the number is still covered");
    await until(async () => /→|as now/.test(await window.figure(bar)), "the prediction is not on show");
    await eventually("the curve is still there", () => curveIsThere(window));
    if (bar === "throughput") {
      await window.undo(kind.before);
      await until(async () => numberIn(kind, await code()) === kind.own, "one undo did not bring the number back");
      await eventually("one Ctrl+Z takes it back", async () => !(await window.anyDirty()));
    } else {
      await view.locator(".actions button", { hasText: "Take back" }).click();
      await until(async () => numberIn(kind, await code()) === kind.own, "it was not taken back");
      check("and so does a button", true);
    }
    await until(async () => (await window.batchSizeShown()) === kind.own && !(await window.figure(bar)).includes("→"), "the view still shows the prediction");
  }
  await byKeys(window, kind, code, check);
  measured("frames a second while dragging", await frames(window));
  await window.close();
}

/** Up one, doubled, and written by Enter; Escape forgets. */
async function byKeys(window, kind, code, check) {
  const { page, view } = window;
  const track = view.locator('[data-bar="memory"] .track');
  await track.focus();
  await page.keyboard.press("ArrowRight");
  await until(async () => (await window.batchSizeShown()) === kind.own + 1, "an arrow key does not move by one");
  await page.keyboard.press("Escape");
  await until(async () => (await window.batchSizeShown()) === kind.own, "Escape does not forget");
  await page.keyboard.press("PageUp");
  await until(async () => (await window.batchSizeShown()) === 2 * kind.own, "PageUp does not double");
  await page.keyboard.press("Enter");
  await until(async () => numberIn(kind, await code()) === 2 * kind.own, "Enter did not write it");
  check("keys move by one, double, forget and write", true);
  await view.locator(".actions button", { hasText: "Take back" }).click();
  await until(async () => numberIn(kind, await code()) === kind.own, "it was not taken back");
}

async function readOnly({ bench, check }) {
  const kind = kindNamed("yaml");
  const window = await opened(bench, kind);
  const { page, view } = window;
  check("the loader's batch size is on show, not the default in the code", (await window.batchSizeShown()) === kind.own);
  check("the view says where the number lives", (await view.locator(".then").innerText()).includes(kind.lives));
  for (const bar of ["throughput", "memory"]) {
    const track = await grabbed(window, bar);
    const { sizes, figures } = await swept(window, bar, track, check, async () => {});
    check(`yaml, ${bar}: the batch size rises with the pointer (${sizes.join(" ")})`, rises(sizes));
    check(`yaml, ${bar}: the figures change with it`, new Set(figures).size >= new Set(sizes).size - 1);
    await page.mouse.up();
    await until(async () => new RegExp(`Not written.*${kind.lives}`).test(await view.locator(".then").innerText()), "letting go does not say where the number lives");
    check("let go, nothing is written, and the view says where to", !(await window.anyDirty()));
    check("the curve is still there", await curveIsThere(window));
    await view.locator(`[data-bar="${bar}"] .track`).press("Escape");
  }
  await window.close();
}

async function opened(bench, kind) {
  const window = await Window.open(bench, bench.workspace(kind.name, filesOf(kind)), "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  if (kind.file && kind.file !== "train.py") await window.openFile(kind.file);
  await seen(window.view.locator(".curve canvas"), "there is no curve", 60_000);
  return window;
}

/** Take hold of a bar's handle; the track's place on the page. */
async function grabbed(window, bar) {
  const track = window.view.locator(`[data-bar="${bar}"] .track`);
  await track.scrollIntoViewIfNeeded();
  const box = await track.boundingBox();
  const handle = await window.view.locator(`[data-bar="${bar}"] .handle`).boundingBox();
  const y = box.y + box.height / 2;
  await startFrames(window);
  await window.page.mouse.move(Math.min(Math.max(handle.x + handle.width / 2, box.x + 1), box.x + box.width - 1), y);
  await window.page.mouse.down();
  return { x: box.x, y, width: box.width };
}

/** Drag to ten places along a bar, and look at each of them. */
async function swept(window, bar, track, check, atEach) {
  const sizes = [];
  const figures = [];
  for (const place of PLACES) {
    await window.page.mouse.move(track.x + track.width * place, track.y, { steps: 4 });
    await until(async () => Math.abs((await handleAt(window, bar, track)) - place) < NEAR, `the handle of ${bar} is not under the pointer at ${place}`, 10_000);
    sizes.push(await settledSize(window));
    figures.push(await window.figure("throughput"));
    if (!(await curveIsThere(window))) throw new Error(`the curve is gone at ${place}`);
    await atEach(sizes.at(-1));
  }
  check(`the handle of ${bar} is under the pointer at ${PLACES.length} places`, true);
  check("and the curve beside it all the while", true);
  return { sizes, figures };
}

async function handleAt(window, bar, track) {
  const handle = await window.view.locator(`[data-bar="${bar}"] .handle`).boundingBox();
  return (handle.x + handle.width / 2 - track.x) / track.width;
}

/** The batch size on show once its prediction is there: two looks a moment apart see the same. */
async function settledSize(window) {
  let last = "";
  await until(async () => {
    const now = `${await window.batchSizeShown()} ${await window.figure("throughput")} ${await window.figure("memory")}`;
    const rests = now === last;
    last = now;
    if (!rests) await window.page.waitForTimeout(150);
    return rests;
  }, "the figures do not come to rest");
  return window.batchSizeShown();
}

async function curveIsThere(window) {
  const box = await window.view.locator(".curve canvas").boundingBox();
  return box !== null && box.height > 50 && (await window.view.locator(".board.no-curve").count()) === 0;
}

/** Never back, and by more than a step or two from end to end. */
function rises(sizes) {
  const inOrder = sizes.every((size, index) => index === 0 || size >= sizes[index - 1]);
  return inOrder && new Set(sizes).size >= 5 && sizes.at(-1) >= 4 * sizes[0];
}

async function startFrames(window) {
  await window.view.locator("body").evaluate(() => {
    const times = [];
    globalThis.skylineFrames = times;
    const tick = (at) => {
      times.push(at);
      if (globalThis.skylineFrames === times && times.length < 600) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
}

async function frames(window) {
  await there(window.view.locator("body"));
  return window.view.locator("body").evaluate(() => {
    const times = globalThis.skylineFrames ?? [];
    return times.length < 2 ? 0 : Math.round((1000 * (times.length - 1)) / (times.at(-1) - times[0]));
  });
}
