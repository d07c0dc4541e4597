// Typing during a run, a syntax error, and figures that stay on display.
import { seen, until } from "../workbench.mjs";

export const title = "editing";

export async function run({ window, check }) {
  const { page, view } = window;
  await window.profiled();
  const before = window.bench.profiles("main");
  await view.locator("[data-key=again]").click();
  await seen(page.locator(".codelens-decoration a", { hasText: "cancel" }).first());
  await window.focusEditor("torch.manual_seed");
  await page.keyboard.press("End");
  const typed = "  # typed while it ran";
  await page.keyboard.type(typed, { delay: 20 });
  await until(async () => (await window.line("manual_seed")).includes(typed.trim()), "the typed text is not in the editor");
  check("text typed during a run is in the editor", true);
  await window.runEnded();
  const added = await until(() => window.bench.profiles("main").filter((name) => !before.includes(name))[0], "the run saved no profile", 30_000);
  check("the run ends and saves a profile", added.endsWith(".profile.json.gz"));
  await window.undoAll();

  await window.focusEditor("torch.manual_seed");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("def (", { delay: 10 });
  await window.command("Skyline: Profile Training Script");
  await seen(view.locator(".trouble", { hasText: /syntax|parse|SyntaxError/i }));
  check("the view shows the syntax error", true);
  check("the bars of the last measurement stay", (await view.locator(".track").count()) === 2);
  await window.undoAll();
}
