// A sweep of a setting for a GPU that need not be present: three questions, a table in the terminal, a tab
// with charts.
import { HEAD, opened } from "../task.mjs";
import { seen, until } from "../workbench.mjs";

export const sweeping = { title: "sweeping", run };

const SCRIPT = `${HEAD}
HIDDEN = 256
device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(4096, 512), torch.randint(0, 10, (4096,)))
loader = DataLoader(data, batch_size=256)
model = nn.Sequential(nn.Linear(512, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(50):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
`;

async function run({ bench, check, shot }) {
  const { window } = await opened(bench, "sweep", "train.py", { "train.py": SCRIPT });
  const { page } = window;
  const asked = page.locator(".quick-input-widget");
  const answer = async (question, text) => {
    await seen(asked.filter({ hasText: question }), `no input with the title ${question} opens`);
    await asked.locator("input").first().fill(text);
  };
  await window.command("Skyline: Sweep a Setting…");
  await answer("Setting of train.py to vary", "HIDDEN");
  await page.keyboard.press("Enter");
  await seen(asked.filter({ hasText: "Write NAME=VALUES" }), "a name without values is not rejected");
  check("a name without values gets an explanation", true);
  await answer("Setting of train.py to vary", "HIDDEN=256:1024:256");
  await page.keyboard.press("Enter");
  const way = page.locator(".quick-input-list .monaco-list-row", { hasText: "Predict for a GPU" });
  await seen(way, "no GPU is offered");
  await way.click();
  await answer("GPU to predict for", "h100");
  await page.keyboard.press("Enter");
  const tab = page.locator(".tab.active", { hasText: "Sweep: HIDDEN=256:1024:256" });
  await seen(tab, "no tab with the sweep", 300_000);
  const report = page.frameLocator('iframe.webview.ready:not([src*="purpose=webviewView"])').frameLocator("iframe#active-frame");
  await seen(report.locator("svg").first(), "the tab shows no chart");
  const rows = () => report.locator("table").first().locator("tbody tr").allInnerTexts();
  await until(async () => (await rows()).length >= 4, "the table lacks values");
  const found = (await rows()).map((row) => row.trim().split(/\s+/)[0].replace(",", ""));
  check(`each value has a row: ${found.join(", ")}`, ["256", "512", "768", "1024"].every((size) => found.includes(size)));
  check("no script was run", !bench.hasProfiles("tasks-sweep"));
  await shot(window, "sweep-of-a-setting");
  await window.close();
}
