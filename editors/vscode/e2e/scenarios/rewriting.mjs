// A what-if switched on and off: the code is rewritten, its diff is shown, and it is put back.
import { until } from "../workbench.mjs";

export const title = "rewriting";

export async function run({ window, check }) {
  const { page, view } = window;
  const before = await window.line("optim.Adam");
  const row = window.whatIf("fused optimizer");
  await row.scrollIntoViewIfNeeded();
  check("a what-if tells its gain", /%/.test(await row.locator(".gain").innerText()));
  await row.hover();
  await row.locator("input").click();
  await until(async () => (await window.line("optim.Adam")).includes("fused=True"), "the code was not rewritten");
  check("switched on, it is in the code, unsaved", await window.isDirty());
  await view.locator(".actions button", { hasText: "Diff" }).click();
  await page.locator(".monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert").first().waitFor({ state: "attached", timeout: 20_000 });
  check("the diff is one click away", true);
  await page.keyboard.press("Control+F4");
  await page.locator(".tab.active", { hasText: /^train\.py/ }).first().waitFor();
  await until(async () => (await page.locator(".monaco-diff-editor").count()) === 0, "the diff did not close");
  await window.whatIf("fused optimizer").locator("input").click();
  await until(async () => (await window.line("optim.Adam")).trim() === before.trim() || !(await window.line("optim.Adam")).includes("fused"), "the code was not put back");
  check("switched off, the code is as before", !(await window.line("optim.Adam")).includes("fused"));
  check("and not another byte", !(await window.isDirty()) || (await until(async () => !(await window.isDirty()), "still dirty", 3000).catch(() => "dirty")) !== "never");
}
