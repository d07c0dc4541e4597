// Two scripts in one window, each with its own profile.
import { seen, until } from "../workbench.mjs";

export const title = "two files";

export async function run({ window, check }) {
  const { view } = window;
  const batchSize = () => view.locator("input[type=number]").inputValue();
  await window.profiled();
  await window.pick("Control+p", "another.py", "another.py");
  await window.seesLens("Profile this training script");
  await seen(view.locator("h1", { hasText: "another.py" }));
  check("the view follows the editor", (await view.locator(".track:visible").count()) === 0);
  await view.locator("button", { hasText: "Profile Training Script" }).click();
  await window.seesLens("peak");
  await until(async () => (await batchSize()) === "16", "the view does not show the second script's batch size", 60_000);
  check("the second script has its own figures", true);
  await window.showTab("train.py");
  await until(async () => (await batchSize()) === "32", "the view does not show the first script again", 60_000);
  check("the first script keeps its own figures", (await view.locator("h1").innerText()).includes("train.py"));
}
