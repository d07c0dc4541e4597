/** The what-ifs as switches with their predicted effects. */

import type { EstimateReport, WhatIfReport } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import type { Asker } from "./asker";
import { fill, h } from "./dom";
import { baselineDoubt, byteChange, direction, duration, isKnown, speedup, speedupWithRange, timeChange } from "./units";

/** This what-if has its own bars instead of a switch. */
const BATCH_SIZE = "batch_size";
const SEMANTICS = {
  exact: "trains exactly as before",
  numerics: "changes rounding",
  convergence: "may change how training converges",
  model: "trains a different model",
} as const;
const PROVENANCE = {
  measured: "Measured: this script ran with the change, on this machine",
  interpolated: "Interpolated: between measured runs of this script with a smaller and a larger value",
  tried: "Tried: parts of this script ran with the change here; a simulation combines them",
  modelled: "Modelled: a model predicts it from the recorded work",
  assumed: "Assumed: a range from experience; a fact that a model needs is not known",
} as const;

export class WhatIfs {
  readonly root = h("div", { class: "whatifs" });
  /** Estimates for the values chosen in the lists. */
  readonly #values = new Map<string, EstimateReport>();
  #profile = "";
  #state: ViewState | null = null;
  #showRest = false;

  constructor(
    private readonly post: (message: FromView) => void,
    private readonly asker: Asker,
  ) {}

  show(state: ViewState): void {
    if (this.#profile !== state.profile?.id) this.#values.clear();
    this.#profile = state.profile?.id ?? "";
    this.#state = state;
    const report = state.whatifs;
    const known = (report?.estimates ?? []).filter((estimate) => estimate.name !== BATCH_SIZE);
    const shown = known.filter((estimate) => estimate.applicable);
    // A what-if whose profiled value was replaced by another one already has a row.
    const replaced = (name: string): boolean => shown.some((one) => one.name === name) && state.applied.whatifs.some((whatif) => nameOf(whatif) === name);
    const there = known.filter((estimate) => estimate.present !== null && !replaced(estimate.name));
    const rest = known.filter((estimate) => !estimate.applicable && estimate.present === null);
    fill(
      this.root,
      ...shown.map((estimate) => this.#row(this.#values.get(estimate.name) ?? estimate, state, report)),
      ...there.map((estimate) => this.#present(estimate, state)),
      rest.length > 0 && this.#rest(rest, state),
    );
  }

  #row(estimate: EstimateReport, state: ViewState, report: WhatIfReport | null): HTMLElement {
    const spec = specOf(estimate);
    const inCode = state.applied.whatifs.find((whatif) => nameOf(whatif) === estimate.name);
    const input = this.#switch(`whatif ${estimate.name}`, spec, inCode !== undefined, `${estimate.title}, ${timeChange(estimate.change_ms)}`);
    const before = report?.baseline.peak_bytes?.value ?? 0;
    const memory = before > 0 && estimate.peak_bytes ? estimate.peak_bytes.value - before : 0;
    const doubt = report ? baselineDoubt(estimate.speedup, report.baseline.iteration_ms) : "";
    const gain = doubt ? "" : direction(estimate.speedup_range);
    const { speedup_range: range } = estimate;
    const known = isKnown(range);
    const unsure = range && !known ? `${speedupWithRange(range)}: press Verify to measure it` : "The range includes zero: this change may have no effect";
    const details = [
      known ? timeChange(estimate.change_ms) : "",
      before > 0 && Math.abs(memory) >= before / 100 ? byteChange(memory) : "",
      estimate.semantics,
      estimate.provenance,
      once(estimate),
      doubt,
    ];
    const row = h(
      "div",
      { class: `whatif${inCode === undefined ? "" : " on"}`, title: [SEMANTICS[estimate.semantics], PROVENANCE[estimate.provenance], ...estimate.assumptions].join("\n") },
      h("label", {}, state.isTrace ? "" : input, h("span", { class: "name" }, estimate.name.replaceAll("_", " "))),
      this.#choice(estimate, inCode),
      h("span", { class: `gain ${gain}`, title: gain ? "" : doubt ? `The factor comes ${doubt}` : unsure }, known ? speedup(estimate.speedup) : "not known"),
      h("div", { class: "muted" }, details.filter(Boolean).join(" · ")),
      this.#refused(estimate, state),
    );
    row.addEventListener("pointerenter", () => this.post({ type: "point", place: { kind: "whatif", whatif: spec } }));
    row.addEventListener("pointerleave", () => this.post({ type: "point", place: null }));
    return row;
  }

  /** The row of a what-if that was in the profiled code. There is no prediction for its removal. */
  #present(estimate: EstimateReport, state: ViewState): HTMLElement {
    const { name } = estimate;
    const on = !state.removed.includes(name);
    const spec = estimate.present ? `${name}=${estimate.present}` : name;
    const locked = on && estimate.removal !== "available" ? (estimate.removal_reason ?? "Skyline cannot remove it") : "";
    const input = this.#switch(`present ${name}`, spec, on, on ? `${name.replaceAll("_", " ")}: in the code. Switch off to remove it` : `${name.replaceAll("_", " ")}: removed from the code`);
    return h(
      "div",
      { class: `whatif${on ? " on" : ""}`, title: locked || (on ? `Remove ${name} from the code` : "Put it back into the code") },
      h("label", {}, state.isTrace ? "" : input, h("span", { class: "name" }, name.replaceAll("_", " "))),
      h("span", { class: "value" }, estimate.present === "true" ? "" : estimate.present),
      h("span", { class: "gain" }, on ? "in the code" : "removed"),
      h("div", { class: "muted" }, on ? locked || "switch off to remove it" : state.canVerify ? "Verify measures the difference" : "profile again to see the difference"),
      this.#refused(estimate, state),
    );
  }

  #switch(key: string, spec: string, on: boolean, label: string): HTMLInputElement {
    const input = h("input", {
      type: "checkbox",
      role: "switch",
      "data-key": key,
      "aria-label": label,
      onchange: () => this.post({ type: "toggle", whatif: spec, on: input.checked }),
    });
    input.checked = on;
    return input;
  }

  #refused(estimate: EstimateReport, state: ViewState): HTMLElement | null {
    const refused = state.refused.find((one) => one.name === estimate.name || nameOf(one.name) === estimate.name);
    return refused ? this.#refusal(refused) : null;
  }

  #choice(estimate: EstimateReport, inCode: string | undefined): HTMLElement {
    if (estimate.values.length < 2) return h("span", { class: "value" }, estimate.value);
    const select = h(
      "select",
      { "data-key": `value ${estimate.name}`, "aria-label": `Value of ${estimate.name}` },
      ...estimate.values.map((value) => h("option", { value, selected: value === estimate.value }, value || "fused")),
    );
    select.addEventListener("change", () => {
      const whatif = select.value ? `${estimate.name}=${select.value}` : estimate.name;
      if (inCode !== undefined) this.post({ type: "toggle", whatif, on: true });
      this.asker.askAside({ batchSize: null, whatifs: [whatif] }, (answer) => {
        if (!answer) return;
        this.#values.set(estimate.name, { ...answer, values: estimate.values });
        if (this.#state) this.show(this.#state);
      });
    });
    return select;
  }

  #refusal(refused: ViewState["refused"][number]): HTMLElement {
    const { name, reason, snippet } = refused;
    const button = (title: string, how: "copy" | "open"): HTMLElement =>
      h("button", { class: "secondary", "data-key": `${title} ${name}`, onclick: () => this.post({ type: "snippet", name, how }) }, title);
    return h("div", { class: "refused", role: "alert" }, `Not rewritten: ${reason}`, snippet !== "" && h("pre", {}, snippet), snippet !== "" && h("div", { class: "actions" }, button("Copy", "copy"), button("Open beside", "open")));
  }

  #rest(rest: readonly EstimateReport[], state: ViewState): HTMLElement {
    const list = h("details", { class: "rest", open: this.#showRest }, h("summary", {}, `${rest.length} more do not apply here`));
    list.append(...rest.map((estimate) => h("div", { class: "muted row" }, h("b", {}, estimate.name.replaceAll("_", " ")), ` ${estimate.reason ?? ""}`)));
    list.addEventListener("toggle", () => (this.#showRest = list.open));
    return state.profile ? list : h("span");
  }
}

/** The one-off cost of a change, such as compiling, and its break-even point. */
function once(estimate: EstimateReport): string {
  const { one_off_s, break_even_iterations } = estimate;
  if (!one_off_s) return "";
  const back = break_even_iterations === null ? "never paid back" : `paid back after ${break_even_iterations.toLocaleString("en")} iterations`;
  return `costs ${duration(one_off_s.value)} once, ${back}`;
}

/** The spec of a what-if: `num_workers=2` or `fused_optimizer`. */
function specOf(estimate: EstimateReport): string {
  return estimate.value ? `${estimate.name}=${estimate.value}` : estimate.name;
}

/** The name in a what-if spec: `amp` for `amp=bf16`. */
export function nameOf(whatif: string): string {
  return whatif.split("=", 1)[0] ?? whatif;
}
