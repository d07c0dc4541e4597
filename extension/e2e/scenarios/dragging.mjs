// Drags both bars in each kind of script. Checks the handle, figures, curve and the number in the code.
import { filesOf, IN_SETTINGS, numberIn, READ_ONLY, WRITABLE } from "../kinds.mjs";
import { seen, there, until } from "../workbench.mjs";
import { Window } from "../window.mjs";
import { headlineAgrees } from "./batch-size.mjs";

const PLACES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
/** Tolerance between the pointer and the middle of the handle, as a share of the bar's width. */
const NEAR = 0.02;
/**
 * Minimum number of drawn pixels of a curve with its band, axes and labels. Axes without a curve have fewer.
 */
const LEAST_INK = 3000;

export const dragged = [...[...WRITABLE, ...IN_SETTINGS].map((kind) => ({ title: `dragging ${kind.name}`, run: (context) => writable(context, kind) })), ...READ_ONLY.map((kind) => ({ title: `dragging ${kind.name}`, run: (context) => readOnly(context, kind) }))];

async function writable(context, kind) {
  const { bench, check, eventually, measured, shot } = context;
  const window = await opened(context, kind);
  await shot(window, `${kind.name}-idle`);
  const { page, view } = window;
  const code = () => window.codeOf(kind);
  await eventually("the view shows the current batch size", async () => (await window.batchSizeShown()) === kind.own);
  for (const bar of ["throughput", "memory"]) {
    const track = await grabbed(window, bar);
    const { sizes, figures, bytes } = await swept(window, bar, track, check, async (shown) => {
      // A decoration shows the new number. The text itself does not change yet.
      const wanted = shown === kind.own ? null : String(shown);
      await until(async () => (await window.liveNumber()) === wanted, `the code does not show ${shown} while the bar moves`);
    });
    check(`${kind.name}, ${bar}: the batch size rises with the pointer (${sizes.join(" ")})`, rises(sizes));
    check(`${kind.name}, ${bar}: the figures change with it`, new Set(figures).size >= new Set(sizes).size - 1);
    check(`${kind.name}, ${bar}: the memory rises with it (${bytes.join(" ")})`, grows(bytes, bar));
    check(`${kind.name}, ${bar}: all sizes are usual batch sizes`, await usual(window, bar, sizes, kind.own));
    check("no file changes while the bar moves", numberIn(kind, await code()) === kind.own && !(await window.anyDirty()));
    await page.mouse.move(track.x + track.width * 0.75, track.y, { steps: 6 });
    const shown = await settledSize(window);
    await shot(window, `${kind.name}-dragging-${bar}`);
    await page.mouse.up();
    await until(async () => numberIn(kind, await code()) === shown, `the view showed ${shown}, but the code has another number`);
    await shot(window, `${kind.name}-dragged-${bar}`);
    await eventually(`after the release, the view still shows ${shown}`, async () => (await window.batchSizeShown()) === shown);
    await eventually("the editor has the unsaved number", () => window.anyDirty());
    check("the file on disk is unchanged", numberIn(kind, bench.read(`${kind.name}/${kind.file}`)) === kind.own);
    await until(async () => (await window.liveNumber()) === null, "the decoration still covers the number");
    await until(async () => /→|as now/.test(await window.figure(bar)), "the view shows no prediction");
    await eventually("the view still has the curve", () => curveIsThere(window));
    if (bar === "throughput") {
      await window.undo(kind.before);
      await until(async () => numberIn(kind, await code()) === kind.own, "one undo did not restore the number");
      await eventually("one Ctrl+Z reverts the change", async () => !(await window.anyDirty()));
    } else {
      await view.locator(".actions button", { hasText: "Undo" }).click();
      await until(async () => numberIn(kind, await code()) === kind.own, "the button Undo did not revert the change");
      check("the button Undo reverts the change", true);
    }
    await until(async () => (await window.batchSizeShown()) === kind.own && !(await window.figure(bar)).includes("→"), "the view still shows the prediction");
  }
  await byKeys(window, kind, code, check);
  await shot(window, `${kind.name}-taken-back`);
  if (kind.name === "argparse") await withWhatIf(window, kind, code, { check, eventually, shot });
  measured("frames per second while dragging", await frames(window));
  await window.close();
}

/** A drag while the code has a what-if: the view shows its prediction, and the curve with it. */
async function withWhatIf(window, kind, code, { check, eventually, shot }) {
  const { page, view } = window;
  const fused = async () => (await window.line("optim.Adam")).includes("fused=True");
  const before = await curveLabel(window);
  await window.toggle("fused optimizer", true);
  await until(fused, "the code was not rewritten");
  await until(async () => (await curveLabel(window)) !== before, "the curve does not include the what-if");
  const under = await curveLabel(window);
  await shot(window, `${kind.name}-what-if-on`);
  const track = await grabbed(window, "throughput");
  const { sizes, figures } = await swept(window, "throughput", track, check, async () => {
    if ((await curveLabel(window)) !== under) throw new Error("the curve with the what-if is gone");
  });
  check(`with a what-if on, the batch size rises with the pointer (${sizes.join(" ")})`, rises(sizes));
  check("with a what-if on, the figures change with the batch size", new Set(figures).size >= new Set(sizes).size - 1);
  await page.mouse.move(track.x + track.width * 0.75, track.y, { steps: 6 });
  const shown = await settledSize(window);
  await page.mouse.up();
  await until(async () => numberIn(kind, await code()) === shown, `the view showed ${shown}, but the code has another number`);
  check("the code has the new number and the what-if", await fused());
  const takeBack = view.locator(".actions button", { hasText: "Undo" });
  await takeBack.click();
  await until(async () => numberIn(kind, await code()) === kind.own, "the number was not reverted");
  check("after reverting the number, the code still has the what-if", await fused());
  await takeBack.click();
  await eventually("a second Undo removes the what-if", async () => !(await fused()));
}

/** Keys: an arrow moves by one, PageUp doubles, Enter writes, and Escape discards the change. */
async function byKeys(window, kind, code, check) {
  const { page, view } = window;
  const track = view.locator('[data-bar="memory"] .track');
  await track.focus();
  await page.keyboard.press("ArrowRight");
  await until(async () => (await window.batchSizeShown()) === kind.own + 1, "an arrow key does not move by one");
  await page.keyboard.press("Escape");
  await until(async () => (await window.batchSizeShown()) === kind.own, "Escape does not discard the change");
  await page.keyboard.press("PageUp");
  await until(async () => (await window.batchSizeShown()) === 2 * kind.own, "PageUp does not double");
  await page.keyboard.press("Enter");
  await until(async () => numberIn(kind, await code()) === 2 * kind.own, "Enter did not write the batch size");
  check("keys move by one, double, discard and write", true);
  await view.locator(".actions button", { hasText: "Undo" }).click();
  await until(async () => numberIn(kind, await code()) === kind.own, "the batch size was not reverted");
}

async function readOnly(context, kind) {
  const { check, shot } = context;
  const name = kind.name;
  const window = await opened(context, kind);
  const { page, view } = window;
  check("the view names the place of the batch size", (await view.locator(".then").innerText()).includes(kind.lives));
  for (const bar of ["throughput", "memory"]) {
    const track = await grabbed(window, bar);
    const { sizes, figures, bytes } = await swept(window, bar, track, check, async () => {});
    check(`${name}, ${bar}: the memory rises with it (${bytes.join(" ")})`, grows(bytes, bar));
    check(`${name}, ${bar}: all sizes are usual batch sizes`, await usual(window, bar, sizes, kind.own));
    check(`${name}, ${bar}: the batch size rises with the pointer (${sizes.join(" ")})`, rises(sizes));
    check(`${name}, ${bar}: the figures change with it`, new Set(figures).size >= new Set(sizes).size - 1);
    await shot(window, `${name}-dragging-${bar}`);
    await page.mouse.up();
    await until(async () => /Not written/.test(await view.locator(".then").innerText()) && (await view.locator(".then").innerText()).includes(kind.lives), "after the release, the view does not name the place of the batch size");
    check("after the release, no file changes, and the view names the place of the batch size", !(await window.anyDirty()));
    check("the view still has the curve", await curveIsThere(window));
    await view.locator(`[data-bar="${bar}"] .track`).press("Escape");
  }
  await window.close();
}

async function opened({ bench, check, measured }, kind) {
  const window = await Window.open(bench, bench.workspace(kind.name, filesOf(kind)), "train.py", { width: 1400, height: 1000 });
  await window.profileNow();
  await headlineAgrees({ window, check, measured }, kind);
  if (kind.file && kind.file !== "train.py") await window.openFile(kind.file);
  await seen(window.view.locator(".curve canvas"), "there is no curve", 60_000);
  return window;
}

/** Press the mouse button on a bar's handle. The result is the position and width of the track. */
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

/** Drag to ten places along a bar, and check the page at each place. */
async function swept(window, bar, track, check, atEach) {
  const sizes = [];
  const figures = [];
  const bytes = [];
  const drawn = [];
  const label = await curveLabel(window);
  for (const place of PLACES) {
    await window.page.mouse.move(track.x + track.width * place, track.y, { steps: 4 });
    await until(async () => Math.abs((await handleAt(window, bar, track)) - place) < NEAR, `the handle of ${bar} is not under the pointer at ${place}`, 10_000);
    sizes.push(await settledSize(window));
    figures.push(await window.figure("throughput"));
    bytes.push(bytesOf(await window.figure("memory")));
    if (!(await curveIsThere(window))) throw new Error(`the curve is gone at ${place}`);
    if ((await curveLabel(window)) !== label) throw new Error(`the curve has changed at ${place}`);
    const { ink, picture } = await marked(window, drawn.at(-1), sizes.at(-1) !== sizes.at(-2), place);
    if (ink < LEAST_INK) throw new Error(`the curve is empty at ${place}: ${ink} pixels are drawn`);
    drawn.push(picture);
    await atEach(sizes.at(-1));
  }
  check(`the curve has its points: ${label}`, [...label.matchAll(/\d+: ([\d.]+)/g)].filter(([, rate]) => Number(rate) > 0).length >= 3);
  check("the mark on the curve moves with the batch size", new Set(drawn).size >= new Set(sizes).size);
  check(`the handle of ${bar} is under the pointer at ${PLACES.length} places`, true);
  check("the curve is drawn at each of these places", true);
  return { sizes, figures, bytes };
}

/**
 * The picture of the curve. If the size has changed, wait until the mark has moved, which may take another
 * frame.
 */
async function marked(window, before, moves, place) {
  let now = await pixels(window);
  await until(async () => {
    now = await pixels(window);
    return !moves || now.picture !== before;
  }, `the mark of the batch size did not move at ${place}`, 5_000);
  return now;
}

/** The predicted peak in a figure such as `10.4 MB → 11.2 MB ±0.1` or `as now: 10.4 MB`. */
function bytesOf(figure) {
  const [, value, unit] = [...figure.matchAll(/([\d.]+) (k|M|G)?B/g)].at(-1) ?? [];
  if (!value) throw new Error(`no memory in: ${figure}`);
  return Math.round(Number(value) * { k: 1e3, M: 1e6, G: 1e9 }[unit ?? ""] || Number(value));
}

/** True if the memory never decreases, and is larger at the end than at the start. */
function grows(bytes, bar) {
  const ordered = bytes.every((one, index) => index === 0 || one >= bytes[index - 1]);
  // The throughput bar may end at a size with the same rounded memory as the smallest size.
  return ordered && (bar === "throughput" || bytes.at(-1) > bytes[0]);
}

/**
 * True for usual sizes: all up to 8, then four per doubling, both ends of the bar, and the script's own size.
 */
async function usual(window, bar, sizes, own) {
  const track = window.view.locator(`[data-bar="${bar}"] .track`);
  const ends = [Number(await track.getAttribute("aria-valuemin")), Number(await track.getAttribute("aria-valuemax"))];
  const snapped = (size) => size <= 8 || Number.isInteger(Math.log2(size) - 2) || [5, 6, 7].some((k) => Number.isInteger(Math.log2(size / k)));
  return sizes.every((size) => snapped(size) || ends.includes(size) || size === own);
}

async function curveLabel(window) {
  return (await window.view.locator(".curve").getAttribute("aria-label")) ?? "";
}

/** The number of drawn pixels of the curve, and the picture as a data URL for comparisons. */
async function pixels(window) {
  return window.view.locator(".curve canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let ink = 0;
    for (let index = 3; index < data.length; index += 4) if (data[index] > 0) ink += 1;
    return { ink, picture: canvas.toDataURL() };
  });
}

async function handleAt(window, bar, track) {
  const handle = await window.view.locator(`[data-bar="${bar}"] .handle`).boundingBox();
  return (handle.x + handle.width / 2 - track.x) / track.width;
}

/** The batch size in the view once its prediction is complete: two consecutive reads are equal. */
async function settledSize(window) {
  let last = "";
  await until(async () => {
    const now = `${await window.batchSizeShown()} ${await window.figure("throughput")} ${await window.figure("memory")}`;
    const rests = now === last;
    last = now;
    if (!rests) await window.page.waitForTimeout(150);
    return rests;
  }, "the figures keep changing");
  return window.batchSizeShown();
}

async function curveIsThere(window) {
  const box = await window.view.locator(".curve canvas").boundingBox();
  return box !== null && box.height > 50 && (await window.view.locator(".board.no-curve").count()) === 0;
}

/** True if the sizes never decrease and cover a wide range. */
function rises(sizes) {
  const inOrder = sizes.every((size, index) => index === 0 || size >= sizes[index - 1]);
  // On a busy machine the measured curve may become flat early. The throughput bar ends there.
  return inOrder && new Set(sizes).size >= 5 && sizes.at(-1) >= 3 * sizes[0];
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
