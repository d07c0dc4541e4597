// The window reloaded: what was measured is there again, and nothing is run for it.
export const title = "reloading";

export async function run({ window, check }) {
  const { page, view } = window;
  const headline = await view.locator(".stats").innerText();
  const profiles = window.bench.profiles("main").length;
  await page.reload();
  await window.seesLens("peak");
  await window.showView();
  await view.locator(".track").first().waitFor({ timeout: 60_000 });
  check("after a reload the view is as it was", (await view.locator(".stats").innerText()) === headline);
  check("without another run", window.bench.profiles("main").length === profiles);
}
