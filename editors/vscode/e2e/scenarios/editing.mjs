// Typing while a run goes on, an error of syntax, and figures that stay with their lines.
import { until } from "../workbench.mjs";

export const title = "editing";

export async function run({ window, check }) {
  const { page, view } = window;
  await view.locator("button", { hasText: "Profile again" }).click();
  await page.locator(".codelens-decoration a", { hasText: "cancel" }).first().waitFor({ timeout: 30_000 });
  await window.focusEditor("torch.manual_seed");
  await page.keyboard.press("End");
  const typed = "  # typed while it ran";
  await page.keyboard.type(typed, { delay: 20 });
  check("what is typed during a run is in the editor", (await window.line("manual_seed")).includes(typed.trim()));
  await until(async () => (await view.locator("button", { hasText: "Profile again" }).count()) > 0, "the run did not end", 120_000);
  check("the run came to its end", /ms/.test(await view.locator(".stats").innerText()));
  await window.undo();
  await until(async () => {
    if (!(await window.isDirty())) return true;
    await page.keyboard.press("Control+z");
    return false;
  }, "the typing was not undone");

  await window.focusEditor("torch.manual_seed");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("def (", { delay: 10 });
  await window.command("Skyline: Profile Training Script");
  await view.locator(".trouble", { hasText: /syntax|parse|SyntaxError/i }).waitFor({ timeout: 60_000 });
  check("a syntax error is said where one looks", true);
  check("what was measured stays", (await view.locator(".track").count()) === 2);
  await window.focusEditor();
  await until(async () => {
    if (!(await window.isDirty())) return true;
    await page.keyboard.press("Control+z");
    return false;
  }, "the error was not undone");
}
