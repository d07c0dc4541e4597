// Typing while a run goes on, an error of syntax, and figures that stay with their lines.
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
  await until(async () => (await window.line("manual_seed")).includes(typed.trim()), "what was typed is not in the editor");
  check("what is typed during a run is in the editor", true);
  await window.runEnded();
  const added = await until(() => window.bench.profiles("main").filter((name) => !before.includes(name))[0], "the run left no profile", 30_000);
  check("the run came to its end, and left a profile", added.endsWith(".profile.json.gz"));
  await window.undoAll();

  await window.focusEditor("torch.manual_seed");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("def (", { delay: 10 });
  await window.command("Skyline: Profile Training Script");
  await seen(view.locator(".trouble", { hasText: /syntax|parse|SyntaxError/i }));
  check("a syntax error is said where one looks", true);
  check("what was measured stays", (await view.locator(".track").count()) === 2);
  await window.undoAll();
}
