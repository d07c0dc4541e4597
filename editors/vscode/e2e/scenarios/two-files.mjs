// Two scripts in one window, each with its own profile.
import { until } from "../workbench.mjs";

export const title = "two files";

export async function run({ window, check }) {
  const { page, view } = window;
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: "another.py" }).dblclick().catch(() => {});
  if ((await page.locator(".tab.active", { hasText: "another.py" }).count()) === 0) {
    await page.keyboard.press("Control+p");
    await page.locator(".quick-input-widget input").first().fill("another.py");
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "another.py" }).first().click();
  }
  await window.seesLens("Profile this training script");
  await window.showView();
  await view.locator("h1", { hasText: "another.py" }).waitFor({ timeout: 30_000 });
  check("the view follows the editor", (await view.locator(".track:visible").count()) === 0);
  await view.locator("button", { hasText: "Profile Training Script" }).click();
  await window.seesLens("peak");
  await until(async () => (await view.locator("input[type=number]").inputValue()) === "16", "the second script's batch size is not on show", 60_000);
  check("the second script has its own figures", true);
  await page.locator(".tab", { hasText: "train.py" }).first().click();
  await until(async () => (await view.locator("input[type=number]").inputValue()) === "32", "the first script is not on show again", 30_000);
  check("and the first one keeps its own", (await view.locator("h1").innerText()).includes("train.py"));
}
