// A what-if switched on and off: the code is rewritten, its diff is shown, and it is put back; then the best ones at once.
import { there, until } from "../workbench.mjs";

export const title = "rewriting";

export async function run({ bench, window, check }) {
  const { page, view } = window;
  await window.profiled();
  const original = bench.read("main/train.py");
  const optimizer = () => window.line("optim.Adam");
  const row = window.whatIf("fused optimizer");
  await row.scrollIntoViewIfNeeded();
  check("a what-if tells its gain", /%/.test(await row.locator(".gain").innerText()));
  await row.locator("input").click();
  await until(async () => (await optimizer()).includes("fused=True"), "the code was not rewritten");
  check("switched on, it is in the code, unsaved", (await window.isDirty()) && bench.read("main/train.py") === original);
  await view.locator(".actions button", { hasText: "Diff" }).click();
  await there(page.locator(".monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert").first());
  check("the diff is one click away", true);
  await window.closeEditor();
  await until(async () => (await page.locator(".monaco-diff-editor").count()) === 0, "the diff did not close");
  await window.whatIf("fused optimizer").locator("input").click();
  await until(async () => !(await optimizer()).includes("fused"), "the code was not put back");
  check("switched off, it is out of the code", true);
  await window.focusEditor();
  check("and the file is as before, to the byte", (await window.saved(bench.path("workspaces/main/train.py"))) === original);

  await view.locator('[data-key="best"]').click();
  const write = view.locator('[data-key="apply best"]');
  await there(write);
  await write.click();
  await until(() => window.isDirty(), "the best combination was not written");
  check("the best combination is written into the code", true);
  await window.undo();
  await until(async () => !(await window.isDirty()), "one undo did not take the combination back");
  check("and one undo takes all of it back", bench.read("main/train.py") === original);
}
