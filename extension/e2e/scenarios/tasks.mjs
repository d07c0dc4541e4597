// Tasks of docs/tasks.md on one script: in a notebook, with Hydra, for the memory of a GPU, and after a
// slowdown.
import { execFileSync } from "node:child_process";
import { NO_TRIALS } from "../kinds.mjs";
import { HEAD, opened, pressProfile, sentence, settled, SIZE, SLOW_DATA } from "../task.mjs";
import { until } from "../workbench.mjs";

export const tasks = [
  { title: "task-notebook", run: inANotebook },
  { title: "task-hydra", run: withHydra },
  { title: "task-memory", run: forAGpu },
  { title: "task-slower", run: slower },
];

async function inANotebook({ bench, check, eventually, shot }) {
  const loader = "loader = DataLoader(Images(), batch_size=16)\nmodel = nn.Linear(64, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)";
  const loop = "for epoch in range(50):\n    for x, y in loader:\n        optimizer.zero_grad()\n        loss = nn.functional.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()";
  const { window, actions } = await opened(bench, "notebook", "training.ipynb", { "training.ipynb": notebook(SLOW_DATA, loader, loop) });
  await actions.take("Profile Training Script", () => pressProfile(window));
  await window.runEnded();
  const said = await sentence(window, ".verdict", /waits for data for \d+ % of the step\. In \[1\]:\d+ .*worker.*: \d.*same computation\./);
  await actions.take("Make this change", () => window.view.locator("[data-key='verdict change']").click());
  await eventually("the cell of the loader contains num_workers", async () => /num_workers=\d/.test(await window.line("DataLoader(Images()")));
  await sentence(window, ".verdict", /This change is in the code/);
  actions.check(check, "I am in a notebook", said);
  await shot(window, "task-editor-i-am-in-a-notebook");
  await window.close();
}

async function withHydra({ bench, python, check, eventually, leftOut, shot }) {
  if (!hasHydra(python)) return leftOut("a script that uses Hydra: hydra-core is not installed");
  const body = `    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
    loader = DataLoader(data, batch_size=config.train.batch_size, shuffle=True)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
`;
  const script = `import hydra\n${HEAD}\n\n@hydra.main(version_base=None, config_path="conf", config_name="config")\ndef main(config):\n${body}\n\nmain()\n`;
  const settings = "# Settings of the training.\ntrain:\n  batch_size: 16  # samples\nseed: 16\n";
  const { window, actions } = await opened(bench, "hydra", "train.py", { "train.py": script, "conf/config.yaml": settings }, {});
  await actions.take("Profile Training Script", () => pressProfile(window));
  await window.runEnded();
  await sentence(window, ".then", /The number is in config\.yaml, line 3 \(train\.batch_size: 16\)\./);
  await actions.take("a drag of Throughput", () => window.drag("throughput", 0.8));
  const said = await sentence(window, ".then", /→ .* per iteration\. Written into config\.yaml, line 3: train\.batch_size: \d+\./);
  const size = Number(/batch_size: (\d+)/.exec(said)[1]);
  actions.check(check, "I use Hydra", said);
  check("the drag chooses a larger batch", size > 16);
  await window.openFile("config.yaml");
  await eventually("the settings file has the new number, and its comment stays", async () => (await window.line("batch_size:")).includes(`batch_size: ${size}  # samples`));
  check("the other 16 is unchanged", (await window.line("seed:")).includes("seed: 16"));
  await shot(window, "task-editor-i-use-hydra");
  await window.close();
}

async function forAGpu({ bench, check, shot }) {
  const text = `${HEAD}\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n\n\nclass Photos(torch.utils.data.Dataset):\n    def __len__(self):\n        return 65536\n\n    def __getitem__(self, index):\n        return torch.zeros(3, 112, 112), index % 10\n\n\nloader = DataLoader(Photos(), batch_size=64)\nnet = nn.Sequential(\n    nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(),\n    nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),\n    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),\n).to(device)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.01)\nfor epoch in range(10):\n    for x, y in loader:\n        optimizer.zero_grad()\n        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))\n        loss.backward()\n        optimizer.step()\n`;
  const { window, actions } = await opened(bench, "memory", "train.py", { "train.py": text }, { "skyline.gpu": "L4" });
  await actions.take("Profile Training Script", () => pressProfile(window));
  await window.runEnded();
  const said = await sentence(window, ".fits", /^The largest batch that fits [\d.]+ GB is \d+ \(.+\)\.$/);
  actions.check(check, "the largest batch for 24 GB", said);
  check("a GPU with 24 GB has 23.6 GB for a program", said.includes("23.6 GB"));
  // A tensor between two layers takes 3.2 MB per image. At least two are kept for the backward pass, and
  // fewer than ten exist at the same time.
  const size = Number(/ GB is (\d+)/.exec(said)[1]);
  check(`${size} images are within the bounds of the model's activations`, size > 23.6e9 / 32e6 && size < 23.6e9 / 6.4e6);
  await settled(window);
  await shot(window, "task-editor-the-largest-batch-for-24-gb");
  // The bars use the traced batch sizes as their curve.
  await window.drag("memory", 0.5);
  await sentence(window, ".then", /→ .* per iteration/);
  check("the bars follow the traced sizes", (await window.batchSizeShown()) > 64);
  await window.close();
}

async function slower({ bench, check, shot }) {
  const text = (wait) => `import time\n${HEAD}\n\ndef prepare(x):\n    time.sleep(${wait})\n    return x\n\n\ndata = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))\nloader = DataLoader(data, batch_size=32)\nnet = nn.Linear(64, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.01)\nfor epoch in range(50):\n    for x, y in loader:\n        optimizer.zero_grad()\n        nn.functional.mse_loss(net(prepare(x)), y).backward()\n        optimizer.step()\n`;
  const { window, actions } = await opened(bench, "slower", "train.py", { "train.py": text("0.01") }, NO_TRIALS, { ...SIZE, width: 1600 });
  const { page, view } = window;
  await window.profileNow();
  // A write by another program, such as `git pull`.
  bench.write("tasks-slower/train.py", text("0.15"));
  await until(async () => (await window.line("time.sleep")).includes("0.15"), "the editor does not show the new text");
  await actions.take("Profile again", () => view.locator("[data-key=again]").click());
  await until(() => bench.profiles("tasks-slower").length > 1, "there is no second profile", 300_000);
  await window.runEnded();
  await actions.take("Skyline: Compare with Previous Profile", () => window.command("Skyline: Compare with Previous Profile"));
  const said = await until(async () => /^# \w.*/.exec(await page.evaluate(textOfActiveEditor))?.[0], "no comparison was opened");
  // The line breaks depend on the width of the editor, so blanks are removed.
  const answer = /^#Slower:[\d.]+msperiteration,before[\d.]+ms;timepersample\+\d+%Thelinewiththelargestincreaseistrain\.py:8,`time\.sleep\(0\.15\)`:([\d.]+)msperiteration,before([\d.]+)ms\./.exec(said.replaceAll(" ", ""));
  check(`the comparison begins with the answer and the line: ${said.slice(0, 240)}`, answer !== null);
  check("the line takes 140 ms longer", Math.abs(Number(answer[1]) - Number(answer[2]) - 140) < 40);
  actions.check(check, "why did it get slower", said.slice(2, said.indexOf("%") + 1));
  await settled(window);
  await shot(window, "task-editor-why-did-it-get-slower");
  await window.close();
}

/** The text of the active editor with wrapped lines joined. Runs in the browser. */
function textOfActiveEditor() {
  const lines = [...document.querySelectorAll(".editor-group-container.active .monaco-editor .view-line")];
  const top = (line) => Number.parseFloat(line.style.top);
  return lines.sort((one, other) => top(one) - top(other)).map((line) => line.textContent.replaceAll("\u00a0", " ")).join(" ").replaceAll(/\s+/g, " ").trim();
}

function hasHydra(python) {
  try {
    execFileSync(python, ["-c", "import hydra"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function notebook(...cells) {
  const entries = cells.map((source, index) => ({ cell_type: "code", id: `cell-${index}`, metadata: {}, source: source.split(/(?<=\n)/), execution_count: null, outputs: [] }));
  return JSON.stringify({ cells: entries, metadata: { language_info: { name: "python" } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}
