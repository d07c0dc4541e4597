// The language server's features at a line, in any client: the curve on hover, actions for other batch sizes,
// and what-ifs at the loop.
import { filesOf, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { until } from "../workbench.mjs";

const MOST_ACTIONS = 15;

export const atTheLines = ofEachKind("hover and actions", run, ["split"]);

async function run({ bench, check, measured }, kind) {
  const folder = bench.workspace(`at-the-lines-${kind.name}`, {
    ...filesOf(kind),
    ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never", "skyline.profile.steps": 6 }),
  });
  const window = await Window.open(bench, folder, "train.py", WHOLE);
  const { page } = window;
  await window.seesLens("Profile this training script");
  await window.clickLens("Profile this training script", async () => (await window.lens("Profile this training script").count()) === 0, "the run did not start");
  await window.profiled();

  // The batch size may be in another file than the script.
  const atNumber = async () => kind.file !== "train.py" && window.openFile(kind.file);
  await atNumber();
  const literal = () => page.locator(".monaco-editor .view-line", { hasText: kind.before }).locator("span span").filter({ hasText: new RegExp(`^${kind.own}$`) }).first();
  const table = page.locator(".monaco-hover table", { hasText: "batch size" }).first();
  await until(async () => {
    await page.mouse.move(5, 5);
    await literal().hover();
    await page.waitForTimeout(1200);
    return table.isVisible();
  }, "no table in the hover of the batch size", 60_000);
  const rows = await table.locator("tr").evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent)));
  const [head, ...points] = rows;
  measured("the table", JSON.stringify(rows));
  check("the curve is a table with its units", head[0] === "batch size" && head[1] === "samples/s" && /per iteration$/.test(head[2]) && /^peak memory, /.test(head[3]) && head[4] === "basis");
  const sizes = points.map(([size]) => Number(size));
  check("the table has at most twelve rows, smallest batch size first", sizes.length >= 3 && sizes.length <= 12 && sizes.every((size, at) => at === 0 || size > sizes[at - 1]));
  check("only the size in the code is marked", points.filter((row) => row[4].includes("in the code")).map(([size]) => size).join() === String(kind.own));
  check("the size in the code was measured", points.some(([size, , , , basis]) => size === String(kind.own) && basis.startsWith("measured")));
  check("every row has all figures", points.every((row) => row.slice(1, 4).every((cell) => Number.parseFloat(cell) > 0)));
  await page.mouse.move(5, 5);

  const widget = page.locator(".action-widget .monaco-list-row");
  const actions = async (text) => {
    await until(async () => {
      await page.keyboard.press("Escape");
      await page.locator(".monaco-editor .view-line", { hasText: text }).first().click();
      await page.keyboard.press("Control+.");
      await page.waitForTimeout(1000);
      return (await widget.filter({ hasText: "Skyline:" }).count()) > 0;
    }, `no actions on the line with ${text}`, 60_000);
    // The page contains only the rows in view. Moving the selection brings the others into view.
    const found = new Set();
    for (let step = 0; step < MOST_ACTIONS; step += 1) {
      for (const one of await widget.allInnerTexts()) found.add(one.replaceAll("\u00a0", " "));
      await page.keyboard.press("ArrowDown");
    }
    return [...found].filter((one) => one.startsWith("Skyline:"));
  };

  if (kind.file !== "train.py") await window.showTab("train.py");
  const atLoop = await actions(kind.loop);
  measured("at the loop", JSON.stringify(atLoop));
  for (const name of ["fused optimizer", "torch.compile", "gradient accumulation", "worker process", "batch size"]) {
    check(`the loop's line offers: ${name}`, atLoop.some((one) => one.includes(name)));
  }
  check("each action has its predicted gain", atLoop.every((one) => /per iteration|samples\/s/.test(one)));
  await page.keyboard.press("Escape");

  await atNumber();
  const atSize = await actions(kind.before);
  measured("at the batch size", JSON.stringify(atSize));
  check("twice the batch size is offered with its samples per second", atSize.some((one) => new RegExp(`double the batch size to ${2 * kind.own}, .*samples/s`).test(one)));
  check("half the batch size is offered with its samples per second", atSize.some((one) => new RegExp(`halve the batch size to ${kind.own / 2}, .*samples/s`).test(one)));
  await page.keyboard.press("Escape");
  check("opening the list changes no file", !(await window.anyDirty()));
  await window.close();
}
