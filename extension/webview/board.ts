/** The two bars, the batch-size field and the curve, with a preview while a bar is dragged. */

import type { EstimateReport, ProfileReport, Question } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import type { Asker } from "./asker";
import { Bar } from "./bar";
import { Curve } from "./curve";
import { fill, focusIn, h } from "./dom";
import { type Quantity, Scale } from "./scale";
import { byteUnit, change, rateUnit, timeUnit, toLoss } from "./units";

const UNITS = { throughput: rateUnit, memory: byteUnit } as const;

export class Board {
  readonly root: HTMLElement;
  readonly #bars: Readonly<Record<Quantity, Bar>>;
  readonly #curve: Curve;
  readonly #size: HTMLInputElement;
  readonly #now = h("span", { class: "muted" });
  readonly #time = h("div", { class: "then" });
  readonly #loss = h("div", { class: "muted" });
  readonly #actions = h("div", { class: "actions" });
  #state: ViewState | null = null;
  #scale: Scale | null = null;
  /** The batch size chosen by the user. Null: the one in the code. */
  #asked: number | null = null;
  #estimate: EstimateReport | null = null;
  #frame = 0;
  /** True if the batch size has changed since the last request. */
  #unsent = false;
  #key = "";

  constructor(
    private readonly post: (message: FromView) => void,
    private readonly asker: Asker,
    /** True if releasing a bar writes the batch size into the code. Otherwise it only chooses the size. */
    private readonly writes = true,
  ) {
    const hint = writes ? "Drag to predict. Release to write the batch size into the code" : "Drag to predict";
    const bar = (name: string, quantity: Quantity): Bar =>
      new Bar(name, hint, {
        drag: (fraction) => this.#scale && this.ask(this.#scale.batchSizeAt(quantity, fraction)),
        drop: () => this.#drop(),
        step: (steps, kind) => this.#step(steps, kind),
        cancel: () => this.#reset(),
        point: (on) => {
          this.post({ type: "point", place: on ? { kind: "batchSize" } : null });
          // A size set by keys is chosen once the bar loses the focus.
          if (!on && !writes) this.#drop();
        },
        open: () => this.post({ type: "open", place: { kind: "batchSize" } }),
      });
    this.#bars = { throughput: bar("Throughput", "throughput"), memory: bar("Memory", "memory") };
    this.#curve = new Curve((batchSize) => {
      this.ask(batchSize);
      this.#drop();
    });
    this.#size = h("input", { type: "number", min: 1, step: 1, "aria-label": "Batch size", "data-key": "batch size" });
    this.#size.addEventListener("input", () => this.#size.valueAsNumber >= 1 && this.ask(Math.round(this.#size.valueAsNumber)));
    this.#size.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#drop();
      if (event.key === "Escape") this.#reset();
    });
    if (!writes) this.#size.addEventListener("change", () => this.#drop());
    const label = h("label", { class: "batch" }, "Batch size ", this.#size, this.#now);
    this.root = h("div", { class: "board" }, this.#bars.throughput.root, this.#bars.memory.root, label, this.#time, this.#loss, this.#actions, this.#curve.root);
  }

  show(state: ViewState): void {
    const profile = state.profile as ProfileReport;
    const key = JSON.stringify([state.script?.uri, profile.id, state.applied]);
    const another = key !== this.#key;
    this.#key = key;
    const before = this.#state?.profile;
    this.#state = state;
    if (another) {
      this.#asked = null;
      // Keep the preview until the estimate for the current code arrives.
      if (!before || before.id !== profile.id) this.#estimate = null;
      this.#setCurve(null);
      if (!this.#plain()) this.#send(true);
    }
    for (const bar of Object.values(this.#bars)) bar.limit(this.#dead, this.#readOnly);
    this.#size.disabled = this.#dead !== "";
    this.root.classList.toggle("no-curve", this.#scale === null);
    this.#drawActions(state);
    this.#draw();
  }

  /** Predict another batch size without writing it. */
  ask(batchSize: number): void {
    const another = batchSize !== this.#asked;
    this.#asked = batchSize;
    this.#unsent ||= another;
    // Draw and request at most once per frame.
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#asked === null) return;
      this.#draw();
      if (!this.#unsent) return;
      this.#unsent = false;
      this.#send(false);
      this.post({ type: "live", batchSize: this.#asked });
    });
  }

  /** The reason why no other batch size can be predicted. Empty if it can. */
  get #dead(): string {
    if (this.#scale) return "";
    const reason = this.#state?.profile?.batch_size.reason;
    if (reason) return reason;
    return this.#state?.progress ? "Other batch sizes are being measured." : "Other batch sizes were not measured, so there is no curve to predict from.";
  }

  /** The reason why the batch size cannot be written into the code, with its place. Empty if it can. */
  get #readOnly(): string {
    const { knob, lives, reason } = this.#state?.profile?.batch_size ?? { knob: null, lives: null, reason: null };
    return knob || lives ? "" : (reason ?? "No number in the code sets the batch size.");
  }

  /** The settings file and the line that hold the number. Empty if it is in the code. */
  get #settingsLine(): string {
    const lives = this.#state?.profile?.batch_size.lives;
    return lives ? `${lives.file.split(/[/\\]/).at(-1) ?? ""}, line ${lives.line}` : "";
  }

  get #elsewhere(): string {
    const lives = this.#state?.profile?.batch_size.lives;
    return lives ? ` The number is in ${this.#settingsLine} (${lives.key}: ${lives.text}).` : "";
  }

  /** The new text of a settings file. Empty while the user tries another number. */
  get #written(): string {
    const lives = this.#state?.profile?.batch_size.lives;
    const written = this.writes ? (this.#state?.applied.batchSize ?? null) : null;
    const shown = written !== null && (this.#asked ?? written) === written;
    return lives && shown ? `. Written into ${this.#settingsLine}: ${lives.key}: ${written}.` : "";
  }

  get #question(): Question {
    const applied = this.#state?.applied ?? { batchSize: null, whatifs: [] };
    return { batchSize: this.#asked ?? applied.batchSize, whatifs: applied.whatifs };
  }

  #plain(): boolean {
    const { batchSize, whatifs } = this.#question;
    return whatifs.length === 0 && (batchSize === null || batchSize === this.#state?.profile?.batch_size.value);
  }

  #send(curve: boolean): void {
    const key = this.#key;
    this.asker.ask(this.#question, curve && this.#question.whatifs.length > 0, (estimate) => {
      if (key !== this.#key) return;
      this.#estimate = estimate;
      // Only requested curves are in the answer.
      if (estimate?.curve && estimate.curve.length > 1) this.#setCurve(estimate.curve);
      this.#draw();
    });
  }

  #setCurve(points: ProfileReport["curve"] | null): void {
    const profile = this.#state?.profile;
    if (!profile) return;
    this.#scale = Scale.of(points ?? profile.curve, profile.batch_size.value);
    this.#curve.show(profile, points ?? profile.curve, this.#scale);
  }

  #draw(): void {
    const profile = this.#state?.profile;
    if (!profile) return;
    const own = profile.batch_size.value;
    const asked = this.#asked ?? this.#state?.applied.batchSize ?? own;
    const estimate = this.#plain() ? null : this.#estimate;
    const now = { throughput: profile.throughput, memory: profile.memory.peak_bytes };
    const then = { throughput: estimate?.throughput ?? null, memory: estimate?.peak_bytes ?? null };
    for (const quantity of ["throughput", "memory"] as const) {
      const scale = this.#scale;
      const measured = now[quantity]?.value ?? 0;
      const fractionOf = (size: number): number => scale?.fraction(quantity, scale.value(quantity, size), size) ?? 1;
      const here = scale?.fraction(quantity, measured, own ?? 0) ?? 1;
      this.#bars[quantity].draw({
        measured: here,
        asked: asked !== null && !this.#plain() ? fractionOf(asked) : here,
        trusted: scale?.trustedUpTo ? fractionOf(scale.trustedUpTo) : 1,
        batchSize: asked ?? 0,
        smallest: scale?.smallest ?? 1,
        largest: scale?.largest ?? 1,
        text: change(now[quantity], then[quantity], UNITS[quantity]),
        changed: !this.#plain(),
      });
    }
    this.#curve.mark(asked);
    if (focusIn(this.#size) !== this.#size || this.#size.valueAsNumber !== asked) this.#size.value = asked === null ? "" : String(asked);
    const beyond = this.#scale?.trustedUpTo ?? null;
    const parts = [own !== null && asked !== own ? `now ${own}` : "", beyond !== null && asked !== null && asked > beyond ? `extrapolated beyond ${beyond}` : ""];
    this.#now.textContent = parts.filter(Boolean).join(" · ");
    const predictedTime = `${change(profile.iteration_ms, estimate?.iteration_ms ?? null, timeUnit)} per iteration`;
    const loss = toLoss(estimate?.to_loss ?? null);
    this.#loss.textContent = loss && `To the same loss (estimate): ${loss}.`;
    this.#loss.title = estimate?.to_loss?.basis ?? "";
    this.#time.textContent = this.#plain() ? this.#hint : this.#readOnly && this.#asked !== null ? `${predictedTime}. Not written. ${this.#readOnly}` : `${predictedTime}${this.#written}`;
    this.#time.classList.toggle("muted", this.#plain());
  }

  get #hint(): string {
    return this.#dead || (this.#readOnly ? `Drag a bar to predict another batch size. ${this.#readOnly}` : `Drag a bar to try another batch size.${this.#elsewhere}`);
  }

  #drawActions(state: ViewState): void {
    const inCode = state.changes.length > 0;
    const button = (title: string, message: FromView, hint: string): HTMLElement =>
      h("button", { class: "secondary", "data-key": title, title: hint, onclick: () => this.post(message) }, title);
    fill(
      this.#actions,
      inCode && button("Diff", { type: "diff" }, "Compare the code with and without Skyline's changes"),
      inCode && button("Undo", { type: "takeBack" }, "Undo the latest change"),
      state.canVerify && state.trusted && button(state.verifying ? "Verifying…" : "Verify", state.verifying ? { type: "command", command: "skyline.cancelRun" } : { type: "verify" }, state.verifying ? "Cancel the measurement" : "Measure the change and compare it with its prediction. Takes minutes"),
      !state.isTrace && h("button", { class: "link", "data-key": "best", title: "The combination with the highest throughput that fits into this memory", onclick: () => this.post({ type: "best" }) }, "Find the best combination"),
    );
  }

  #drop(): void {
    const asked = this.#asked;
    if (asked === null) return;
    const inCode = this.#state?.applied.batchSize ?? this.#state?.profile?.batch_size.value;
    if (asked === inCode) this.#reset();
    else if (this.#readOnly) this.#draw();
    else this.post({ type: "batchSize", batchSize: asked });
  }

  #step(steps: number, kind: "one" | "ten" | "double" | "end"): void {
    const scale = this.#scale;
    const from = this.#question.batchSize ?? this.#state?.profile?.batch_size.value;
    if (!scale || from === null || from === undefined) return;
    const to = { one: from + steps, ten: from + 10 * steps, double: Math.round(from * 2 ** steps), end: steps > 0 ? scale.largest : scale.smallest }[kind];
    this.ask(Math.min(scale.largest, Math.max(scale.smallest, to)));
  }

  #reset(): void {
    this.#asked = null;
    this.#unsent = false;
    this.post({ type: "live", batchSize: null });
    if (!this.#plain()) this.#send(false);
    this.#draw();
  }
}
