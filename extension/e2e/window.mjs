// A window of the workbench with the user's actions and the visible state.
import * as fs from "node:fs";
import { seen, there, until } from "./workbench.mjs";

/** Time limit of a run on a busy machine. */
const RUN_TIMEOUT_MS = 300_000;
/** Longer than the time between two redraws of the lenses, even with a busy server. */
const LENSES_LOST_MS = 15_000;
const VIEW = 'iframe.webview.ready[src*="extensionId=skyline"]';

export class Window {
  constructor(bench, page) {
    this.bench = bench;
    this.page = page;
    // A notebook has its own page, so select the view's page.
    this.view = page.frameLocator(VIEW).frameLocator("iframe#active-frame");
  }

  static async open(bench, folder, file, size) {
    return new Window(bench, await bench.open(folder, file, size));
  }

  /** The lens with this text. */
  lens(text) {
    return this.page.locator(".codelens-decoration a", { hasText: text }).first();
  }

  /** Wait for a lens. Runs are slow on a busy machine. */
  async seesLens(text, timeout = RUN_TIMEOUT_MS) {
    let asked = Date.now();
    await until(async () => {
      if (await this.lens(text).isVisible()) return true;
      if (Date.now() - asked > LENSES_LOST_MS) {
        asked = Date.now();
        await this.#asksForLenses();
      }
      return false;
    }, `no lens says "${text}"`, timeout);
  }

  /**
   * Make the editor request its lenses again. When the focus leaves the editor, VS Code drops a pending
   * request for lenses until the focus returns. Meanwhile old lenses, or titles without a command, stay.
   */
  async #asksForLenses() {
    const input = this.page.locator(".editor-instance .monaco-editor :is(textarea.inputarea, .native-edit-context)").first();
    if ((await input.count()) === 0) return;
    await input.evaluate((element) => {
      element.blur();
      element.focus();
    });
  }

  /**
   * Click a lens until the click has an effect. An editor that redraws its lenses sometimes drops a click.
   */
  async clickLens(text, effect, what) {
    // A title without a command is enough: a click focuses the editor, which then requests the command.
    const title = this.page.locator(".codelens-decoration > :is(a, span)", { hasText: text }).first();
    await seen(title, `no lens says "${text}"`, RUN_TIMEOUT_MS);
    await until(async () => {
      if (await effect()) return true;
      await title.click({ timeout: 2000 });
      await this.page.waitForTimeout(700);
      return effect();
    }, what, 60_000);
  }

  /**
   * The line that contains this text, with plain spaces. It includes hints and text hidden by a decoration.
   */
  async line(text) {
    const found = await this.page.locator(".monaco-editor .view-line", { hasText: text }).first().textContent({ timeout: 10_000 });
    return found.replaceAll("\u00a0", " ");
  }

  /** The line with the batch size in the active editor. Its text does not include a decoration's number. */
  async codeOf(kind) {
    await there(this.page.locator(".tab.active", { hasText: kind.file }), `${kind.file} is not the active editor`, 5000);
    return this.line(kind.before);
  }

  /** The number that a decoration shows in the code while a bar moves. Null without a decoration. */
  async liveNumber() {
    return this.page.evaluate(() => {
      for (const span of document.querySelectorAll(".monaco-editor .view-line span")) {
        const { content } = getComputedStyle(span, "::after");
        const number = /^"(\d+)"$/.exec(content)?.[1];
        if (number) return number;
      }
      return null;
    });
  }

  /** The batch size in the view's field. */
  async batchSizeShown() {
    return Number(await this.view.locator("input[type=number]").inputValue());
  }

  /** True if any editor has unsaved changes. */
  async anyDirty() {
    return (await this.page.locator(".tab.dirty").count()) > 0;
  }

  /** Profile the script in the active editor by its lens, and wait for the end. */
  async profileNow() {
    await this.seesLens("Profile this training script");
    await this.showView();
    const runs = async () => (await this.view.locator("button", { hasText: "Cancel" }).count()) > 0 || (await this.view.locator(".stats").count()) > 0;
    await this.clickLens("Profile this training script", runs, "the lens did not start a run");
    await this.profiled();
  }

  /** Wait for the end of a run that a save starts. */
  async runAgainEnded() {
    const cancel = this.view.locator("[data-key=again]", { hasText: "Cancel" });
    await until(async () => (await cancel.count()) > 0, "no run began", 20_000).catch(() => {});
    await this.runEnded();
  }

  /** Open a file of the workspace by its name. */
  async openFile(name) {
    await this.pick("Control+p", name, name);
    await seen(this.page.locator(".tab.active", { hasText: name }));
  }

  /** Type at the end of the line that contains this text. */
  async typeAtEnd(text, typed) {
    await this.focusEditor(text);
    await this.page.keyboard.press("End");
    await this.page.keyboard.type(typed, { delay: 10 });
    await until(async () => (await this.line(text)).includes(typed.trim()), "the typed text is not in the editor");
  }

  /** True if the switch of a what-if is on: Skyline wrote it, or the profiled code has it. */
  async isOn(name) {
    return (await this.whatIf(name).locator("input:checked").count()) > 0;
  }

  /** Switch a what-if, and wait until it is on or off. */
  async toggle(name, on) {
    await until(async () => (await this.isOn(name)) !== on, `${name} is ${on ? "on" : "off"} already`);
    const isSo = async () => (await this.isOn(name)) === on;
    await until(async () => {
      if (await isSo()) return true;
      // The list is redrawn when figures arrive. A click during a redraw is repeated.
      await this.whatIf(name).locator(on ? "input:not(:checked)" : "input:checked").first().click({ timeout: 5000 });
      return until(isSo, "not yet", 10_000);
    }, `${name} did not switch`);
  }

  async isDirty() {
    return (await this.page.locator(".tab.active.dirty").count()) > 0;
  }

  async showView() {
    if ((await this.page.locator(VIEW).count()) === 0) {
      await this.page.locator('.activitybar .action-item:has(a[aria-label^="Skyline"])').click();
    }
    await there(this.view.locator("main#view header"));
  }

  /** Wait until the editor and the view show a profile, and no run is in progress. */
  async profiled() {
    await this.seesLens("peak");
    await this.showView();
    await seen(this.view.locator(".whatif").first());
    await this.runEnded();
  }

  /** Wait for the end of a run. The curve over batch sizes is measured last. */
  async runEnded() {
    await seen(this.view.locator("[data-key=again]", { hasText: "Profile again" }), "the run did not end", RUN_TIMEOUT_MS);
  }

  /** Run a command of the palette by its title. */
  async command(title) {
    await this.pick("F1", `>${title}`, title);
  }

  /** Choose from a list at the top of the window. Retries, because a busy editor may miss the key. */
  async pick(key, typed, wanted) {
    const input = this.page.locator(".quick-input-widget input").first();
    const row = this.page.locator(".quick-input-list .monaco-list-row", { hasText: wanted }).first();
    await until(async () => {
      if (!(await input.isVisible())) await this.page.keyboard.press(key);
      await input.fill(typed, { timeout: 5000 });
      await row.click({ timeout: 10_000 });
      return true;
    }, `"${wanted}" could not be chosen`, 90_000);
  }

  /** Close the active editor. */
  async closeEditor() {
    await this.page.locator(".tab.active .tab-actions .action-label").first().click();
  }

  /** Activate an open editor. */
  async showTab(name) {
    await this.page.locator(".tab", { hasText: new RegExp(`^${name.replaceAll(".", "\\.")}\\b(?! \\()`) }).first().click();
  }

  /** Undo until the active editor has no unsaved changes. */
  async undoAll() {
    await this.focusEditor();
    await until(async () => {
      if (!(await this.isDirty())) return true;
      await this.page.keyboard.press("Control+z");
      return false;
    }, "the typed text was not undone", 60_000);
  }

  /** Save the active editor, and return the content of the file on disk. */
  async saved(file) {
    await this.page.keyboard.press("Control+s");
    await until(async () => !(await this.isDirty()), "the file was not saved", 60_000);
    return fs.readFileSync(file, "utf8");
  }

  /** Click into the editor, on a line with this text if one is visible. */
  async focusEditor(text = "import torch") {
    const lines = this.page.locator(".monaco-editor .view-line");
    const wanted = lines.filter({ hasText: text });
    // If no line matches, click a line in the middle: a shadow may cover the first visible line.
    await ((await wanted.count()) > 0 ? wanted.first() : lines.nth(Math.floor((await lines.count()) / 2))).click();
  }

  /** Click the line that contains this text, then undo once. */
  async undo(text) {
    await this.focusEditor(text);
    await this.page.keyboard.press("Control+z");
  }

  /** Drag a bar of the view to a fraction of its width. `middle` is called before the release. */
  async drag(name, fraction, middle = async () => {}) {
    const track = this.view.locator(`[data-bar="${name}"] .track`);
    await track.scrollIntoViewIfNeeded();
    const box = await track.boundingBox();
    const handle = await this.view.locator(`[data-bar="${name}"] .handle`).boundingBox();
    const y = box.y + box.height / 2;
    await this.page.mouse.move(handle.x + 2, y);
    await this.page.mouse.down();
    await this.page.mouse.move(box.x + box.width * fraction, y, { steps: 20 });
    await middle();
    await this.page.mouse.up();
  }

  figure(name) {
    return this.view.locator(`[data-bar="${name}"] .figure`).innerText();
  }

  whatIf(name) {
    return this.view.locator(".whatif", { hasText: name });
  }

  /** The notification with this text. */
  notification(text) {
    return this.page.locator(".notifications-toasts .notification-toast", { hasText: text }).first();
  }

  close() {
    return this.page.close();
  }
}
