// A reload of the window shows the saved profile again without a run.
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
  check("after a reload the view shows the same figures", (await view.locator(".stats").innerText()) === headline);
  check("the reload starts no run", bench.profiles("main").length === profiles);
}
