// The report in a tab of the editor, made by the bundled Skyline. No browser window opens.
import * as fs from "node:fs";
import * as path from "node:path";
import { filesOf, NO_TRIALS, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const reported = ofEachKind("report", run, ["dataclass"]);

const SETTINGS = ".vscode/settings.json";
const LIGHT = "rgb(246, 246, 244)";
const DARK = "rgb(19, 21, 25)";

async function run({ bench, check, eventually }, kind) {
  const settings = { ...NO_TRIALS, "skyline.importStrategy": "useBundled", "workbench.colorTheme": "Default Dark Modern" };
  const folder = bench.workspace(`report-${kind.name}`, { ...filesOf(kind), [SETTINGS]: JSON.stringify(settings) });
  const window = await Window.open(bench, folder, "train.py", WHOLE);
  const { page } = window;
  const violations = [];
  page.on("console", (message) => /Content Security Policy/i.test(message.text()) && violations.push(message.text()));
  const ran = async () => (await page.locator(".codelens-decoration a", { hasText: /cancel|peak/ }).count()) > 0;
  await window.seesLens("Profile this training script");
  await window.clickLens("Profile this training script", ran, "the lens did not start a run");
  await window.profiled();
  check("the server is the bundled one", /run_skyline\.py --bundled lsp/.test(bench.extensionLog()));
  const figure = async (text) => (/[\d.]+\s*(ms|s|µs)/.exec(await text) ?? ["?"])[0].replace(/\s+/, " ");
  // The lens and the view show the first figures, and are updated shortly after the end of the run.
  // The report is a second page of the extension.
  const view = page.frameLocator('iframe.webview.ready[src*="purpose=webviewView"]').frameLocator("iframe#active-frame");
  const inView = () => figure(view.locator(".stats").innerText());
  const inLens = () => figure(window.lens("peak").innerText());
  await until(async () => (await inLens()) === (await inView()), "the lens and the view show different figures", 20_000);

  await window.command("Skyline: Open Report");
  await seen(page.locator(".tab.active", { hasText: "Report: train.py" }), "no tab with the report");
  const report = page.frameLocator('iframe.webview.ready:not([src*="purpose=webviewView"])').frameLocator("iframe#active-frame");
  await seen(report.locator("h1", { hasText: "train.py" }), "the tab does not show the report");
  check("the report is a tab of the editor", true);
  const iteration = await figure(report.locator(".figures dd").first().innerText());
  await eventually(`the report and the view show the same time: ${iteration}`, async () => (await inView()) === iteration);
  check("the footer of the report has the time per iteration", /per iteration/.test(await report.locator("footer").innerText()));
  const background = () => report.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
  check("the report is dark in a dark editor", (await background()) === DARK);
  const widths = await report.locator(".stack").first().locator("i").evaluateAll((parts) => parts.map((part) => part.getBoundingClientRect().width));
  const stack = (await report.locator(".stack").first().boundingBox()).width;
  check("the parts of the first bar fill its width", widths.length > 1 && Math.abs(widths.reduce((sum, width) => sum + width, 0) - stack) < 0.05 * stack);
  const link = report.locator('td.code a[href^="#"]').first();
  const row = report.locator(`[id="${(await link.getAttribute("href")).slice(1)}"]`);
  await link.click();
  await until(async () => {
    const [box, size] = [await row.boundingBox(), page.viewportSize()];
    return box.y >= 0 && box.y < size.height;
  }, "a click on a line does not lead to its source", 30_000);
  check("a click on a line leads to its source", true);

  fs.writeFileSync(path.join(folder, SETTINGS), JSON.stringify({ ...settings, "workbench.colorTheme": "Default Light Modern" }));
  await until(async () => (await background()) === LIGHT, "the report stays dark in a light editor", 60_000);
  check("the report is light in a light editor", true);
  check("no browser window or dialog opens", bench.popUps().length === 0 && (await page.locator(".monaco-dialog-box").count()) === 0);
  check("the page sends no request to other machines", page.outside.length === 0);
  check(`the report complies with its content security policy${violations.join("; ")}`, violations.length === 0);
  await window.closeEditor();
  await eventually("after the report is closed, the lens shows the same time", async () => (await inLens()) === iteration);
  await window.close();
}
