/** The what-ifs as switches, each with what it is predicted to bring. */

import type { EstimateReport, WhatIfReport } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import type { Asker } from "./asker";
import { fill, h } from "./dom";
import { byteChange, speedup, timeChange } from "./units";

/** Has the bars for itself. */
const BATCH_SIZE = "batch_size";
const SEMANTICS = {
  exact: "trains exactly as before",
  numerics: "changes rounding",
  convergence: "may change how training converges",
} as const;

export class WhatIfs {
  readonly root = h("div", { class: "whatifs" });
  /** Values chosen in the lists, and what they would bring. */
  readonly #values = new Map<string, EstimateReport>();
  #profile = "";
  #showRest = false;

  constructor(
    private readonly post: (message: FromView) => void,
    private readonly asker: Asker,
  ) {}

  show(state: ViewState): void {
    if (this.#profile !== state.profile?.id) this.#values.clear();
    this.#profile = state.profile?.id ?? "";
    const report = state.whatifs;
    const known = (report?.estimates ?? []).filter((estimate) => estimate.name !== BATCH_SIZE);
    const shown = known.filter((estimate) => estimate.applicable);
    const rest = known.filter((estimate) => !estimate.applicable);
    fill(
      this.root,
      ...shown.map((estimate) => this.#row(this.#values.get(estimate.name) ?? estimate, state, report)),
      rest.length > 0 && this.#rest(rest, state),
    );
  }

  #row(estimate: EstimateReport, state: ViewState, report: WhatIfReport | null): HTMLElement {
    const spec = specOf(estimate);
    const inCode = state.applied.whatifs.find((whatif) => whatif.split("=", 1)[0] === estimate.name);
    const refused = state.refused.find((one) => one.name === estimate.name || one.name === spec);
    const input = h("input", {
      type: "checkbox",
      role: "switch",
      "data-key": `whatif ${estimate.name}`,
      "aria-label": `${estimate.title}, ${timeChange(estimate.change_ms)}`,
      onchange: () => this.post({ type: "toggle", whatif: spec, on: input.checked }),
    });
    input.checked = inCode !== undefined;
    const memory = report ? estimate.peak_bytes.value - report.baseline.peak_bytes.value : 0;
    const faster = estimate.speedup > 1.005 ? "better" : estimate.speedup < 0.995 ? "worse" : "";
    const row = h(
      "div",
      { class: `whatif${inCode === undefined ? "" : " on"}`, title: [SEMANTICS[estimate.semantics], ...estimate.assumptions].join("\n") },
      h("label", {}, input, h("span", { class: "name" }, estimate.name.replaceAll("_", " "))),
      this.#choice(estimate, state, inCode),
      h("span", { class: `gain ${faster}` }, speedup(estimate.speedup)),
      h("div", { class: "muted" }, `${timeChange(estimate.change_ms)}${report && Math.abs(memory) >= report.baseline.peak_bytes.value / 100 ? ` · ${byteChange(memory)}` : ""} · ${estimate.semantics}`),
      refused ? this.#refusal(refused) : null,
    );
    row.addEventListener("pointerenter", () => this.post({ type: "point", place: { kind: "whatif", whatif: spec } }));
    row.addEventListener("pointerleave", () => this.post({ type: "point", place: null }));
    return row;
  }

  #choice(estimate: EstimateReport, state: ViewState, inCode: string | undefined): HTMLElement {
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
        this.show(state);
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

/** `num_workers=2` or `fused_optimizer`: how a what-if is asked for. */
function specOf(estimate: EstimateReport): string {
  return estimate.value ? `${estimate.name}=${estimate.value}` : estimate.name;
}
