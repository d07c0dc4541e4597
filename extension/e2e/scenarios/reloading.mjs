// The window reloaded: what was measured is there again, and nothing is run for it.
import { seen } from "../workbench.mjs";

export const title = "reloading";

export async function run({ bench, window, check }) {
  const { page, view } = window;
  await window.profiled();
  const headline = await view.locator(".stats").innerText();
  const profiles = bench.profiles("main").length;
  await page.reload();
  await window.seesLens("peak");
  await window.showView();
  await seen(view.locator(".track").first());
  check("after a reload the view is as it was", (await view.locator(".stats").innerText()) === headline);
  check("without another run", bench.profiles("main").length === profiles);
}
