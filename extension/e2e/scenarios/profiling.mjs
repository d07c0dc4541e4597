// From the lens that offers a run to figures in the editor: progress, cancel, lens, hint, diagnostic, hover.
import { seen, there, until } from "../workbench.mjs";

export const title = "profiling";

export async function run({ window, check, eventually }) {
  const { page } = window;
  await window.seesLens("Profile this training script");
  check("a lens above the training loop offers a run", true);
  check("no script runs before the user starts a run", !window.bench.hasProfiles("main"));

  const runs = async () => (await page.locator(".codelens-decoration a", { hasText: "cancel" }).count()) > 0;
  await window.clickLens("Profile this training script", runs, "the lens did not start a run");
  check("the lens shows the progress of the run", true);
  await window.showView();
  await seen(window.view.locator(".progress").first());
  check("the view shows the progress of the run", true);
  await seen(page.locator(".statusbar", { hasText: "Profiling train.py" }));
  check("the status bar shows the progress of the run", true);
  await window.view.locator("button", { hasText: "Cancel" }).first().click();
  await until(async () => !(await runs()), "the run was not cancelled", 60_000);
  await seen(window.view.locator("button", { hasText: /Profile Training Script|Profile again/ }), "the view does not offer to profile again", 60_000);
  await until(async () => (await page.locator(".statusbar", { hasText: "Profiling train.py" }).count()) === 0, "the status bar still shows the run", 60_000);
  // On a busy machine the profile may already exist, without its curve.
  const left = window.bench.profiles("main").length;
  await page.waitForTimeout(3000);
  check("a cancelled run ends and saves no profile afterwards", window.bench.profiles("main").length === left && !(await runs()));

  await window.view.locator("button", { hasText: /Profile Training Script|Profile again/ }).first().click();
  await window.seesLens("peak");
  check("the headline is above the loop", /per iteration .* samples\/s/.test(await window.lens("peak").innerText().then((text) => text.replaceAll("\u00a0", " "))));
  check("a line ends with its time", /optimizer\.step\(\)\s*[\d.]+ (ms|µs)/u.test(await until(async () => {
    const line = await window.line("optimizer.step()");
    return /\d/.test(line) && line;
  }, "no hint at the end of a line")));
  await there(page.locator(".monaco-editor .squiggly-warning, .monaco-editor .squiggly-info").first());
  check("a finding is among the problems", true);
  await page.locator(".monaco-editor .view-line", { hasText: "optimizer.step()" }).locator("span").filter({ hasText: "step" }).first().hover();
  await seen(page.locator(".monaco-hover", { hasText: "optimizer" }).first());
  check("the hover shows the details of the line", true);
  await page.mouse.move(5, 5);
  await seen(window.view.locator(".track").first());
  await seen(window.view.locator(".whatif").first());
  await window.runEnded();
  check("the view has both bars", (await window.view.locator(".track").count()) === 2);
  const [rate, peak] = [await window.figure("throughput"), await window.figure("memory")];
  check(`the bars have their figures: ${rate}, ${peak}`, /^[\d,.]+ samples\/s/.test(rate) && Number.parseFloat(rate) > 0 && /^[\d.]+ (k|M|G)B/.test(peak) && Number.parseFloat(peak) > 0);
  // The lens is updated shortly after the view. It has no range such as ` ±925` or ` (335–857)`.
  const headline = async () => (await window.lens("peak").innerText()).replaceAll("\u00a0", " ");
  const plain = [rate, peak].map((figure) => figure.split(/ [±(]/)[0]);
  await eventually("the lens shows the same figures", () => headline().then((text) => plain.every((figure) => text.includes(figure))));
  check("the view shows the batch size of the code", (await window.batchSizeShown()) === 32);
  const rows = async () => (await window.view.locator(".whatif").allInnerTexts()).filter((row) => !row.includes("in the code"));
  // On a busy machine a range can be too wide for a figure. Its row then has neither a time nor a percentage.
  const tells = (row) => /(ms|µs)/.test(row) && /(%|×)/.test(row);
  await eventually("each what-if has its change in time and in speed", () => rows().then((all) => all.filter(tells).length > 2 && all.every((row) => tells(row) || row.includes("not known"))));
}
