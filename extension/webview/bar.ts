/** A draggable bar: measured value, requested value, and the range in which the curve is trusted. */

import { h } from "./dom";

/** The values that a bar shows. Positions are fractions of its width, from 0 to 1. */
export interface BarPicture {
  readonly measured: number;
  readonly asked: number;
  readonly trusted: number;
  readonly batchSize: number;
  readonly smallest: number;
  readonly largest: number;
  readonly text: string;
  readonly changed: boolean;
}

/** Callbacks for the user's actions on a bar. */
export interface BarActions {
  /** The handle was moved to this fraction. */
  readonly drag: (fraction: number) => void;
  /** The handle was released. */
  readonly drop: () => void;
  /** The batch size was changed by keys. */
  readonly step: (steps: number, kind: "one" | "ten" | "double" | "end") => void;
  /** The action was cancelled by a key or by the system. */
  readonly cancel: () => void;
  readonly point: (on: boolean) => void;
  readonly open: () => void;
}

const KEYS: Readonly<Record<string, readonly [number, "one" | "double" | "end"]>> = {
  ArrowRight: [1, "one"],
  ArrowUp: [1, "one"],
  "]": [1, "one"],
  ArrowLeft: [-1, "one"],
  ArrowDown: [-1, "one"],
  "[": [-1, "one"],
  PageUp: [1, "double"],
  PageDown: [-1, "double"],
  End: [1, "end"],
  Home: [-1, "end"],
};

/** A press that moves less than this is a click, which opens the line and changes nothing. */
const CLICK_PX = 3;

export class Bar {
  readonly root: HTMLElement;
  readonly track: HTMLElement;
  readonly #now = h("div", { class: "now" });
  readonly #asked = h("div", { class: "asked" });
  readonly #doubt = h("div", { class: "doubt" });
  readonly #handle = h("div", { class: "handle" });
  readonly #text = h("output", { class: "figure" });
  #pressedAt: number | null = null;
  /** Position at which the pointer holds the handle, from 0 to 1. */
  #held: number | null = null;
  #moved = false;

  constructor(
    readonly name: string,
    private readonly hint: string,
    private readonly actions: BarActions,
  ) {
    this.track = h(
      "div",
      { class: "track", role: "slider", tabindex: 0, "aria-label": name, "data-key": `bar ${name}`, title: hint },
      this.#doubt,
      this.#asked,
      this.#now,
      this.#handle,
    );
    this.root = h("div", { class: "bar", "data-bar": name.toLowerCase() }, h("div", { class: "label" }, h("span", {}, name), this.#text), this.track);
    this.track.addEventListener("pointerdown", (event) => this.#down(event));
    this.track.addEventListener("pointermove", (event) => this.#move(event));
    this.track.addEventListener("pointerup", (event) => this.#up(event));
    this.track.addEventListener("pointercancel", () => this.#end(() => actions.cancel()));
    this.track.addEventListener("pointerenter", () => actions.point(true));
    this.track.addEventListener("pointerleave", () => actions.point(false));
    this.track.addEventListener("focus", () => actions.point(true));
    this.track.addEventListener("blur", () => actions.point(false));
    this.track.addEventListener("keydown", (event) => this.#key(event));
  }

  get dragging(): boolean {
    return this.#pressedAt !== null && this.#moved;
  }

  /** Set the reasons why the bar cannot be dragged and why its value cannot be written. An empty reason: it can. */
  limit(dead: string, readOnly: string): void {
    this.track.setAttribute("aria-disabled", String(dead !== ""));
    this.track.classList.toggle("disabled", dead !== "");
    this.track.title = dead || (readOnly ? `Drag to predict. ${readOnly}` : this.hint);
  }

  draw(picture: BarPicture): void {
    const percent = (fraction: number): string => `${(100 * fraction).toFixed(2)}%`;
        // While held, the handle follows the pointer. After release, it is at the chosen batch size.
    const handle = this.#held ?? picture.asked;
    const [low, high] = [Math.min(picture.measured, handle), Math.max(picture.measured, handle)];
    this.#now.style.width = percent(low);
    this.#asked.style.left = percent(low);
    this.#asked.style.width = percent(high - low);
    this.#asked.classList.toggle("less", handle < picture.measured);
    this.#doubt.style.left = percent(picture.trusted);
    this.#handle.style.left = percent(handle);
    this.root.classList.toggle("changed", picture.changed);
    if (this.#text.textContent !== picture.text) this.#text.textContent = picture.text;
    this.track.setAttribute("aria-valuemin", String(picture.smallest));
    this.track.setAttribute("aria-valuemax", String(picture.largest));
    this.track.setAttribute("aria-valuenow", String(picture.batchSize));
    this.track.setAttribute("aria-valuetext", `batch size ${picture.batchSize}: ${picture.text}`);
  }

  #down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.#pressedAt = event.clientX;
    this.#moved = false;
    this.track.setPointerCapture(event.pointerId);
  }

  #move(event: PointerEvent): void {
    if (this.#pressedAt === null) return;
    if (!this.#moved && Math.abs(event.clientX - this.#pressedAt) < CLICK_PX) return;
    if (this.track.classList.contains("disabled")) return;
    this.#moved = true;
    this.track.classList.add("dragging");
    const box = this.track.getBoundingClientRect();
    this.#held = box.width > 0 ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : 0;
    this.actions.drag(this.#held);
  }

  #up(event: PointerEvent): void {
    if (this.#pressedAt === null) return;
    this.#move(event);
    const moved = this.#moved;
    this.#end(() => (moved ? this.actions.drop() : this.actions.open()));
  }

  #end(then: () => void): void {
    this.#pressedAt = null;
    this.#moved = false;
    this.#held = null;
    this.track.classList.remove("dragging");
    then();
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.#end(() => this.actions.cancel());
    } else if (this.track.classList.contains("disabled")) {
      return;
    } else if (event.key === "Enter") {
      this.actions.drop();
    } else {
      const step = KEYS[event.key];
      if (!step) return;
      this.actions.step(step[0], step[1] === "one" && event.shiftKey ? "ten" : step[1]);
    }
    event.preventDefault();
  }
}
