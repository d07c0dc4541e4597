// A window of the workbench as a person uses it: what can be seen and done in it.
import * as fs from "node:fs";
import { seen, there, until } from "./workbench.mjs";

/** On a machine with other things to do. */
const RUN_TIMEOUT_MS = 300_000;
/** Longer than the pauses between two redraws of the lenses, also of a busy server. */
const LENSES_LOST_MS = 15_000;
const VIEW = 'iframe.webview.ready[src*="extensionId=skyline"]';

export class Window {
  constructor(bench, page) {
    this.bench = bench;
    this.page = page;
    // A notebook has a page of its own beside the view's.
    this.view = page.frameLocator(VIEW).frameLocator("iframe#active-frame");
  }

  static async open(bench, folder, file, size) {
    return new Window(bench, await bench.open(folder, file, size));
  }

  /** The lens with this text. */
  lens(text) {
    return this.page.locator(".codelens-decoration a", { hasText: text }).first();
  }

  /** Wait for a lens; runs take their time on a busy machine. */
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
   * VS Code drops a request for lenses that waits for its turn when the focus leaves the editor, and makes it when the
   * focus comes back. Until then old lenses stay, or titles without a command.
   */
  async #asksForLenses() {
    const input = this.page.locator(".editor-instance .monaco-editor :is(textarea.inputarea, .native-edit-context)").first();
    if ((await input.count()) === 0) return;
    await input.evaluate((element) => {
      element.blur();
      element.focus();
    });
  }

  /** Click a lens until that has had an effect: an editor that redraws its lenses drops a click now and then. */
  async clickLens(text, effect, what) {
    // The title alone will do: a click on it brings the focus back, and the editor then asks for its command.
    const title = this.page.locator(".codelens-decoration > :is(a, span)", { hasText: text }).first();
    await seen(title, `no lens says "${text}"`, RUN_TIMEOUT_MS);
    await until(async () => {
      if (await effect()) return true;
      await title.click({ timeout: 2000 });
      await this.page.waitForTimeout(700);
      return effect();
    }, what, 60_000);
  }

  /** The text of the line that holds this, with plain spaces; hints at its end included, and what a decoration hides. */
  async line(text) {
    const found = await this.page.locator(".monaco-editor .view-line", { hasText: text }).first().textContent({ timeout: 10_000 });
    return found.replaceAll("\u00a0", " ");
  }

  /** The lines on show in the editor in front, one text: what is typed, not what decorates it. */
  async codeOf(kind) {
    await there(this.page.locator(".tab.active", { hasText: kind.file }), `${kind.file} is not in front`, 5000);
    return this.line(kind.before);
  }

  /** The number that covers the one in the code while a bar moves; null: nothing covers it. */
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

  /** Whether any editor holds something unsaved. */
  async anyDirty() {
    return (await this.page.locator(".tab.dirty").count()) > 0;
  }

  /** Profile the script in front by its lens, and wait for the end. */
  async profileNow() {
    await this.seesLens("Profile this training script");
    await this.showView();
    const runs = async () => (await this.view.locator("button", { hasText: "Cancel" }).count()) > 0 || (await this.view.locator(".stats").count()) > 0;
    await this.clickLens("Profile this training script", runs, "the lens did not start a run");
    await this.profiled();
  }

  /** A save has started a run: wait for its end, the view being on its new profile. */
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

  /** Type at the end of the line that holds this. */
  async typeAtEnd(text, typed) {
    await this.focusEditor(text);
    await this.page.keyboard.press("End");
    await this.page.keyboard.type(typed, { delay: 10 });
    await until(async () => (await this.line(text)).includes(typed.trim()), "what was typed is not in the editor");
  }

  /** Whether a what-if is on: put into the code from here, or there when it was profiled. */
  async isOn(name) {
    return (await this.whatIf(name).locator("input:checked").count()) > 0;
  }

  /** Switch a what-if, and wait until it is on or off. */
  async toggle(name, on) {
    await until(async () => (await this.isOn(name)) !== on, `${name} is ${on ? "on" : "off"} already`);
    const isSo = async () => (await this.isOn(name)) === on;
    await until(async () => {
      if (await isSo()) return true;
      // The list is drawn anew when figures come: a click that meets that is made again.
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

  /** Wait until a profile is on show, in the editor and in the view, and nothing runs. */
  async profiled() {
    await this.seesLens("peak");
    await this.showView();
    await seen(this.view.locator(".whatif").first());
    await this.runEnded();
  }

  /** Wait for the end of a run: the curve over batch sizes comes last. */
  async runEnded() {
    await seen(this.view.locator("[data-key=again]", { hasText: "Profile again" }), "the run did not end", RUN_TIMEOUT_MS);
  }

  /** Run a command of the palette by its title. */
  async command(title) {
    await this.pick("F1", `>${title}`, title);
  }

  /** Choose from one of the lists at the top of the window; a busy editor may miss the key, or be slow with the list. */
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

  /** Close the editor in front. */
  async closeEditor() {
    await this.page.locator(".tab.active .tab-actions .action-label").first().click();
  }

  /** Bring an editor that is open to the front. */
  async showTab(name) {
    await this.page.locator(".tab", { hasText: new RegExp(`^${name.replaceAll(".", "\\.")}\\b(?! \\()`) }).first().click();
  }

  /** Undo until nothing is unsaved. */
  async undoAll() {
    await this.focusEditor();
    await until(async () => {
      if (!(await this.isDirty())) return true;
      await this.page.keyboard.press("Control+z");
      return false;
    }, "what was typed was not undone", 60_000);
  }

  /** Save the file in front, and give back what is on disk then. */
  async saved(file) {
    await this.page.keyboard.press("Control+s");
    await until(async () => !(await this.isDirty()), "it was not saved", 60_000);
    return fs.readFileSync(file, "utf8");
  }

  /** Click into the editor, on a line with this text if one is in sight: a change further down scrolls the first lines away. */
  async focusEditor(text = "import torch") {
    const lines = this.page.locator(".monaco-editor .view-line");
    const wanted = lines.filter({ hasText: text });
    // Scrolled away: the first line on show may lie below the shadow of the upper edge.
    await ((await wanted.count()) > 0 ? wanted.first() : lines.nth(Math.floor((await lines.count()) / 2))).click();
  }

  /** One undo in the editor; the line that holds this is clicked first. */
  async undo(text) {
    await this.focusEditor(text);
    await this.page.keyboard.press("Control+z");
  }

  /** Drag a bar of the view to a fraction of its width; `middle` is called before it is let go. */
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

  /** The notifications on show. */
  notification(text) {
    return this.page.locator(".notifications-toasts .notification-toast", { hasText: text }).first();
  }

  close() {
    return this.page.close();
  }
}
