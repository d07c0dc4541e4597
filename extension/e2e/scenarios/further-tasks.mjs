// Tasks of docs/tasks.md with several processes, other machines, GPUs, trials, a trace and a git repository.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { HEAD, opened, pressProfile, sentence, settled, SIZE, SLOW_DATA } from "../task.mjs";
import { seen, until } from "../workbench.mjs";

const TRACE = path.join(import.meta.dirname, "../../../tests/data/tiny_gpu.trace.json");
const CHECK_TIMEOUT_MS = 540_000;
const LOOP = `for epoch in range(50):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
`;
const SLOW_LOADER = `${SLOW_DATA}


loader = DataLoader(Images(), batch_size=16)
model = nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
${LOOP}`;
const WAITS = /waits for data for \d+ % of the step\..* .*worker.*: \d.*same computation\./;

export const furtherTasks = [
  { title: "task-torchrun", run: underTorchrun },
  { title: "task-host", run: onAHost },
  { title: "task-h100", run: anH100 },
  { title: "task-fastest", run: fastest },
  { title: "task-idle", run: idle },
  { title: "task-check", run: checked },
];

async function underTorchrun({ bench, check, shot }) {
  const body = `dist.init_process_group("gloo")\n    loader = DataLoader(Images(), batch_size=16)\n    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 4))\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    ${LOOP.trimEnd().replaceAll("\n", "\n    ")}`;
  const script = `import torch.distributed as dist\n${SLOW_DATA}\n\n\ndef main():\n    ${body}\n\n\nif __name__ == "__main__":\n    main()\n`;
  const name = "Train on two processes";
  const launch = { version: "0.2.0", configurations: [{ name, type: "debugpy", request: "launch", module: "torch.distributed.run", args: ["--nproc-per-node", "2", "${file}"] }] };
  const { window, actions } = await opened(bench, "torchrun", "train.py", { "train.py": script, ".vscode/launch.json": JSON.stringify(launch, null, 2) });
  await actions.take("Skyline: Profile with Arguments…", () => window.command("Skyline: Profile with Arguments…"));
  const row = window.page.locator(".quick-input-list .monaco-list-row", { hasText: name });
  await seen(row, "the configuration of launch.json is not offered");
  check("the configuration is shown with its command", (await row.innerText()).includes("torch.distributed.run --nproc-per-node 2 train.py"));
  await actions.take(name, () => row.click());
  await window.runEnded();
  const said = await sentence(window, ".verdict", WAITS);
  await sentence(window, ".basis", /measured on .*, rank 0 of 2/);
  await sentence(window, ".stage", /Profiled as python -m torch\.distributed\.run --nproc-per-node 2 train\.py/);
  actions.check(check, "my job runs under torchrun", said);
  await settled(window);
  await shot(window, "task-editor-my-job-runs-under-torchrun");
  await window.close();
}

/**
 * The host is this machine with another home folder: the `ssh` of this test is a script that starts a shell
 * there.
 */
async function onAHost({ bench, python, check, shot }) {
  const home = bench.path("gpubox");
  bench.program("ssh", `#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\n[ "$2" = gpubox ] || exit 255\ncd ${home}\nexec env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME HOME=${home} SHELL=/bin/sh /bin/sh -c "$3"\n`);
  bench.program("skyline", `#!/bin/sh\nexec ${python} -m skyline "$@"\n`, "gpubox/bin");
  fs.writeFileSync(path.join(home, ".profile"), 'export PATH="$HOME/bin:/usr/bin:/bin"\n');
  const { window, actions } = await opened(bench, "host", "train.py", { "train.py": SLOW_LOADER }, { "skyline.profile.host": "gpubox", ...NO_TRIALS });
  await actions.take("Profile Training Script", () => pressProfile(window));
  await window.runEnded();
  const said = await sentence(window, ".verdict", WAITS);
  await sentence(window, ".basis", /measured on .* of gpubox/);
  check("the script ran on the host", fs.existsSync(path.join(home, ".cache/skyline/projects")));
  check("the profile is on this machine", bench.hasProfiles("tasks-host"));
  actions.check(check, "on the GPU box, from my laptop", said);
  await settled(window);
  await shot(window, "task-editor-on-the-gpu-box-from-my-laptop");
  await window.close();
}

async function anH100({ bench, check, shot }) {
  const script = `${HEAD}
device = "cuda" if torch.cuda.is_available() else "cpu"


class Photos(torch.utils.data.Dataset):
    def __len__(self):
        return 1_281_167

    def __getitem__(self, index):
        return torch.zeros(3, 112, 112), index % 10


loader = DataLoader(Photos(), batch_size=256)
model = nn.Sequential(
    nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
${LOOP.replace("model(x), y", "model(x.to(device)), y.to(device)")}`;
  const { window, actions } = await opened(bench, "h100", "train.py", { "train.py": script });
  await actions.take("Skyline: Compare GPUs…", () => window.command("Skyline: Compare GPUs…"));
  const input = window.page.locator(".quick-input-widget input").first();
  await seen(window.page.locator(".quick-input-widget", { hasText: "Compare GPUs" }), "no input for the GPUs opens");
  await actions.take("l4, h100", async () => {
    await input.fill("l4, h100");
    await window.page.keyboard.press("Enter");
  });
  const said = await until(() => sentence(window, ".answer", /^Fastest (and cheapest )?is the (L4|H100): an epoch of the unchanged script takes .*, \$[\d.]+.*\.$/), "the view does not compare the GPUs", 300_000);
  const rows = await window.view.locator("details:has([data-key=devices]) tbody tr").allInnerTexts();
  check(`both GPUs have a row: ${rows.join(" / ").replaceAll(/\s+/g, " ")}`, rows.length === 2 && rows.every((row) => row.includes("$")));
  check("no script was run", !bench.hasProfiles("tasks-h100"));
  actions.check(check, "an H100: how fast, and at which cost", said);
  await settled(window);
  await shot(window, "task-editor-what-an-h100-brings-and-costs");
  await window.close();
}

async function fastest({ bench, check, shot }) {
  const { window, actions } = await opened(bench, "fastest", "train.py", { "train.py": SLOW_LOADER }, {});
  await actions.take("Profile Training Script", () => pressProfile(window));
  await window.runEnded();
  await actions.take("Find the best combination", () => window.view.locator('[data-key="best"]').click());
  const said = await sentence(window, ".news .verified", /^.*num_workers=\d.*: .*\d.* samples\/s, the best of \d+ combinations\./);
  actions.check(check, "the fastest settings", said);
  await settled(window);
  await shot(window, "task-editor-the-fastest-settings");
  await window.close();
}

async function idle({ bench, check, eventually, shot }) {
  const { window, actions } = await opened(bench, "idle", "trace.json", { "trace.json": fs.readFileSync(TRACE, "utf8") });
  await actions.take("Skyline: Show Profiler Trace", () => window.command("Skyline: Show Profiler Trace"));
  const said = await sentence(window, ".verdict", /The GPU works for 42 % of the step\..*Python and kernel launches.*: \d/);
  actions.check(check, "why is my GPU idle", said);
  await eventually("the view offers no run", async () => (await window.view.locator("[data-key=again]").count()) === 0);
  await shot(window, "task-editor-why-is-my-gpu-idle");
  await window.close();
}

async function checked({ bench, check, shot }) {
  const text = (wait) => `import time\n${HEAD}\ndata = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))\nloader = DataLoader(data, batch_size=32)\nmodel = nn.Linear(64, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.01)\nfor epoch in range(50):\n    for x, y in loader:\n        time.sleep(${wait})\n        optimizer.zero_grad()\n        nn.functional.mse_loss(model(x), y).backward()\n        optimizer.step()\n`;
  const settings = { "terminal.integrated.gpuAcceleration": "off", ...NO_TRIALS };
  const cwd = bench.workspace("tasks-check", { "train.py": text("0.005") });
  const git = (...words) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", ...words], { cwd, stdio: "pipe" });
  git("init", "-q");
  git("add", "train.py");
  git("commit", "-qm", "fast");
  const { window, actions } = await opened(bench, "check", "train.py", { "train.py": text("0.02") }, settings, { ...SIZE, height: 860 });
  await actions.take("Skyline: Check Against a Revision…", () => window.command("Skyline: Check Against a Revision…"));
  const row = window.page.locator(".quick-input-list .monaco-list-row", { hasText: "the last commit" });
  await seen(row, "no list of revisions opens");
  await actions.take("HEAD", () => row.click());
  const rows = window.page.locator(".terminal .xterm-rows > div");
  const said = await until(async () => /Over budget: [^.]*\./.exec((await rows.allInnerTexts()).join(" ").replaceAll("\u00a0", " "))?.[0], "the check printed no result", CHECK_TIMEOUT_MS);
  actions.check(check, "a slow change does not get in", said);
  await shot(window, "task-editor-a-slow-change-does-not-get-in");
  await window.close();
}
