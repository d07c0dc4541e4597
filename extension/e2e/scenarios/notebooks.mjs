// A notebook is profiled as a whole. Its figures, the number of a drag and changes are shown in their cells.
import * as fs from "node:fs";
import * as path from "node:path";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "notebooks";

const OWN = 32;
const LOOP = "for x, y in loader";
const CELLS = [
  ["markdown", "# A small classifier"],
  ["code", "%matplotlib inline\nimport torch\nfrom torch.utils.data import DataLoader, TensorDataset"],
  ["code", `data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 4, (4096,)))\nloader = DataLoader(data, batch_size=${OWN}, shuffle=True)`],
  ["code", "model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 4))\noptimizer = torch.optim.Adam(model.parameters())"],
  ["code", "for epoch in range(2):\n    for x, y in loader:\n        optimizer.zero_grad()\n        loss = torch.nn.functional.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()\n    print(epoch, loss.item())"],
];

export async function run({ bench, script, check, eventually, shot }) {
  const files = { "training.ipynb": notebook(), "train.py": script, ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never" }) };
  const folder = bench.workspace("notebooks", files);
  const file = path.join(folder, "training.ipynb");
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1000 });
  const { page, view } = window;
  const shows = async (name) => (await view.locator("h1", { hasText: name }).count()) > 0;
  await window.openFile("training.ipynb");
  await seen(page.locator("text=Run All"), "the notebook is not open");
  await window.showView();
  const profile = view.locator("button", { hasText: "Profile Training Script" });
  await seen(profile, "the view offers no run of the notebook");
  await eventually("the view names the notebook", () => shows("training.ipynb"));
  await profile.click();
  await seen(view.locator(".whatif").first(), "the view shows no profile of the notebook", 300_000);
  await window.runEnded();
  await shot(window, "notebook-profiled");

  check("the headline is a lens in a cell", (await window.lens("peak").count()) > 0);
  const lines = await view.locator(".line").evaluateAll((rows) => rows.map((row) => row.title));
  check(`lines are named by their cells (${lines[0]})`, lines.length > 0 && lines.every((name) => /^In \[\d\]:\d+$/.test(name)));
  await eventually("expensive lines are coloured in the cell of the loop", () => heated(page));

  const code = async () => Number(/batch_size=(\d+)/.exec(await window.line("DataLoader(data"))[1]);
  await window.drag("throughput", 0.75, async () => {
    const shown = await until(async () => {
      const size = await window.batchSizeShown();
      return size !== OWN && (await window.liveNumber()) === String(size) ? size : null;
    }, "the cell does not show the number of the bar");
    // On a busy machine a small batch may have the highest throughput.
    check(`the cell shows ${shown} while the bar moves`, shown !== OWN);
    check("no file changes while the bar moves", !(await window.anyDirty()));
    await shot(window, "notebook-dragging");
  });
  const written = await window.batchSizeShown();
  await eventually(`after the release, the cell contains ${written}`, async () => (await code()) === written);
  await eventually("the notebook has unsaved changes", () => window.anyDirty());
  await view.locator(".actions button", { hasText: "Undo" }).click();
  await eventually("Undo restores the batch size", async () => (await code()) === OWN);

  await window.toggle("fused optimizer", true);
  await eventually("a what-if is written into the cell of its line", async () => (await window.line("optim.Adam")).includes("fused=True"));
  await view.locator(".actions button", { hasText: "diff" }).click();
  await seen(page.locator(".tab.active", { hasText: "training.ipynb (without" }), "the diff is not open");
  const marked = async (lines) => (await page.locator(`.monaco-diff-editor .${lines}`).count()) === 1;
  await eventually("the diff shows the code of the cells with one changed line", async () => (await marked("original .line-delete")) && (await marked("modified .line-insert")));
  await shot(window, "notebook-diff");
  await window.closeEditor();

  await page.locator(".notebook-editor .view-line", { hasText: LOOP }).first().click();
  await page.keyboard.press("Control+s");
  await eventually("the saved file contains the change", () => fs.readFileSync(file, "utf8").includes("fused=True"));
  const cells = JSON.parse(fs.readFileSync(file, "utf8")).cells.map(({ source }) => [source].flat().join(""));
  const wanted = CELLS.map(([, source]) => source.replace("Adam(model.parameters())", "Adam(model.parameters(), fused=True)"));
  check("all other cells in the file are unchanged", JSON.stringify(cells) === JSON.stringify(wanted));

  await window.showTab("train.py");
  await eventually("the view follows to a script in the active tab", () => shows("train.py"));
  await window.showTab("training.ipynb");
  await eventually("the view follows back to the notebook", () => shows("training.ipynb"));
  await window.close();
}

function notebook() {
  const cells = CELLS.map(([type, source], index) => ({
    cell_type: type,
    id: `cell-${index}`,
    metadata: {},
    source: source.split(/(?<=\n)/),
    ...(type === "code" ? { execution_count: null, outputs: [] } : {}),
  }));
  return JSON.stringify({ cells, metadata: { language_info: { name: "python" } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}

/** True if a line in the notebook has the background of an expensive line. */
function heated(page) {
  return page.evaluate(() => [...document.querySelectorAll(".notebook-editor .monaco-editor .view-overlays div")].some((one) => /rgba?\(232, 89, 12/.test(getComputedStyle(one).backgroundColor)));
}
