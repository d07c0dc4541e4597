// A notebook: it is not profiled, and the view and the command say so, and how to go on.
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "notebooks";

const CELL = { cell_type: "code", execution_count: null, id: "a1", metadata: {}, outputs: [], source: ["import torch\n", "print(torch.zeros(3))"] };
const NOTEBOOK = { cells: [CELL], metadata: { language_info: { name: "python" } }, nbformat: 4, nbformat_minor: 5 };
const WORDS = "skyline profile training.ipynb";

export async function run({ bench, script, check, shot }) {
  const files = { "training.ipynb": JSON.stringify(NOTEBOOK), "train.py": script };
  const window = await Window.open(bench, bench.workspace("notebooks", files), "train.py");
  const { page } = window;
  // A notebook has a page of its own beside the view's.
  const view = page.frameLocator('iframe.webview.ready[src*="extensionId=skyline"]').frameLocator("iframe#active-frame");
  await window.showView();
  await seen(view.locator("button", { hasText: "Profile Training Script" }));
  await window.openFile("training.ipynb");
  await seen(page.locator("text=Run All"), "the notebook is not open");
  await seen(view.locator(`text=${WORDS}`), "the view says nothing of the notebook");
  check("the view says that notebooks cannot be profiled yet, and how to go on", (await view.locator("text=Skyline does not profile notebooks in the editor yet.").count()) === 1);
  await shot(window, "notebook");
  check("and offers to run nothing", (await view.locator("button").count()) === 0);
  await window.command("Skyline: Profile Training Script");
  await seen(window.notification(WORDS), "the command says nothing of the notebook");
  check("so does the command", true);
  await window.showTab("train.py");
  await seen(view.locator("button", { hasText: "Profile Training Script" }), "the script is not on show again");
  await until(async () => (await view.locator(`text=${WORDS}`).count()) === 0, "the notebook stays on show");
  check("back at a script, that is on show again", (await view.locator("h1").innerText()) === "train.py");
  await window.close();
}
