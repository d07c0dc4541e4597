/** The section of clusters: a question, the ranked strategies, their reasons, and the timeline of a row. */

import type { PlanReport, TimelineReport } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import type { PlanAsked, PlanState } from "../src/view/plan-state";
import { fill, h } from "./dom";
import { byteUnit, share, text, timeUnit, withSpread } from "./units";

type Row = PlanReport["rows"][number];
type Inputs = Readonly<Record<"gpus" | "amount" | "budget" | "deadline", HTMLInputElement>>;

const FIELDS = [
  ["gpus", "GPUs", "8..64"],
  ["amount", "samples", "10M"],
  ["budget", "budget", "$5000"],
  ["deadline", "deadline", "3d"],
] as const;
/** The colour of each part of a step. */
const COLOURS: Readonly<Record<string, string>> = { computation: "forward", communication: "communication", bubble: "other", optimizer: "optimizer" };

export class PlanPanel {
  readonly root: HTMLElement;
  readonly #model = h("select", { "data-key": "plan model", "aria-label": "Model" });
  readonly #cluster = h("select", { "data-key": "plan cluster", "aria-label": "Cluster" });
  readonly #inputs: Inputs;
  readonly #amountName = h("span", {}, "samples");
  readonly #actions = h("div", { class: "actions" });
  readonly #found = h("div", { class: "plan" });
  #filled = "";

  constructor(private readonly post: (message: FromView) => void) {
    const input = (name: string, title: string, example: string): HTMLInputElement => {
      const field = h("input", { type: "text", placeholder: example, "aria-label": title, "data-key": `plan ${name}` });
      field.addEventListener("keydown", (event) => event.key === "Enter" && this.#ask());
      return field;
    };
    this.#inputs = Object.fromEntries(FIELDS.map(([name, title, example]) => [name, input(name, title, example)])) as Inputs;
    this.#model.addEventListener("change", () => this.#named());
    const labelled = (title: string | HTMLElement, field: HTMLElement): HTMLElement => h("label", {}, h("span", { class: "muted" }, title), field);
    const fields = FIELDS.map(([name, title]) => labelled(name === "amount" ? this.#amountName : title, this.#inputs[name]));
    this.root = h("div", {}, h("div", { class: "question" }, labelled("model", this.#model), labelled("cluster", this.#cluster), ...fields), this.#actions, this.#found);
  }

  show(state: ViewState): void {
    const { plan } = state;
    this.#offer(plan);
    const ask = h(
      "button",
      { class: "secondary", "data-key": "plan", onclick: () => (plan.planning ? this.post({ type: "command", command: "skyline.cancelRun" }) : this.#ask()) },
      plan.planning ? "Planning… cancel" : "Plan",
    );
    fill(this.#actions, ask);
    const { report } = plan;
    fill(
      this.#found,
      plan.reason !== "" && h("div", { class: "notice", role: "alert" }, plan.reason),
      ...(report ? this.#report(report, plan, hindrance(state)) : plan.reason === "" ? [h("div", { class: "muted" }, NOT_YET)] : []),
    );
  }

  #ask(): void {
    if (!this.#cluster.value) return;
    const texts = Object.fromEntries(FIELDS.map(([name]) => [name, this.#inputs[name].value.trim()])) as Pick<PlanAsked, keyof Inputs>;
    this.post({ type: "plan", asked: { cluster: this.#cluster.value, model: this.#model.value, ...texts } });
  }

  /** Name the unit of the amount: tokens for a described model, samples for a script. */
  #named(): void {
    this.#amountName.textContent = this.#model.value ? "tokens" : "samples";
    this.#inputs.amount.placeholder = this.#model.value ? "10B" : "10M";
  }

  /** Fill the lists and, after a reload, restore the last question. */
  #offer({ choices, asked }: PlanState): void {
    const key = JSON.stringify([choices, this.#filled === "" ? asked : null]);
    if (!choices || key === this.#filled) return;
    const [model, cluster] = [this.#model.value, this.#cluster.value];
    this.#model.replaceChildren(h("option", { value: "" }, "this script"), ...choices.models.map((name) => h("option", { value: name }, name)));
    this.#cluster.replaceChildren(
      ...choices.clusters.map((one) => h("option", { value: one.name, title: one.source }, `${one.name} (${one.gpus_per_node} × ${one.gpu}${one.usd_per_node_hour === null ? "" : `, $${one.usd_per_node_hour}/h`})`)),
    );
    const first = this.#filled === "" && asked;
    if (first) for (const [name] of FIELDS) this.#inputs[name].value = asked[name];
    this.#model.value = first ? asked.model : model;
    if (first || cluster) this.#cluster.value = first ? asked.cluster : cluster;
    this.#named();
    this.#filled = JSON.stringify([choices, null]);
  }

  #report(report: PlanReport, { opened }: PlanState, hindered: string): HTMLElement[] {
    const basis = h("div", { class: "muted caption" }, `${report.model} on ${report.cluster} (${report.gpu}); ${report.fitting.toLocaleString("en")} of ${report.considered.toLocaleString("en")} strategies can be used; figures are ${report.provenance}`);
    if (report.rows.length === 0) return [h("div", { class: "notice", role: "alert" }, report.advice), basis, leftOut(report)];
    const several = new Set(report.rows.map((row) => row.gpus)).size > 1;
    const paid = report.rows.some((row) => row.hours !== null);
    const unit = timeUnit(...report.rows.map((row) => row.step_ms.value));
    const titles = [...(several ? ["GPUs"] : []), "step", `${report.unit}/s`, "memory", ...(paid ? ["time", "cost"] : [])];
    const body = report.rows.map((row) => {
      const figures = [...(several ? [String(row.gpus)] : []), withSpread(row.step_ms, unit), rate(row.units_per_s.value), text(row.memory_bytes.value, byteUnit(row.memory_bytes.value)), ...(paid ? [hours(row), dollars(row)] : [])];
      const open = h("button", { class: "link", "data-key": `plan row ${row.rank}`, "aria-expanded": String(opened?.row === row.rank), onclick: () => this.post({ type: "planRow", row: row.rank }) }, row.label);
      const why = [row.why || "The fastest strategy on this number of GPUs", row.objection && `the training ${row.objection}`, `limited by ${row.limit}`];
      const marks = [opened?.row === row.rank && "on", row.objection !== "" && "muted"].filter(Boolean).join(" ");
      const name = h("tr", {}, h("th", { scope: "rowgroup", colspan: titles.length }, `${row.rank}. `, open));
      return h("tbody", { class: marks, title: why.filter(Boolean).join("; ") }, name, h("tr", {}, ...figures.map((figure) => h("td", {}, figure))));
    });
    const table = h("div", { class: "scrolled" }, h("table", {}, h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", {}, title)))), ...body));
    const row = report.rows.find(({ rank }) => rank === opened?.row);
    return [table, ...(row ? this.#row(row, opened?.timeline ?? null, hindered) : []), basis, leftOut(report)];
  }

  #row(row: Row, timeline: TimelineReport | null, hindered: string): HTMLElement[] {
    const sizes = row.stage_memory_bytes.map((value) => text(value, byteUnit(value)));
    const stages = sizes.length > 0 && `Memory of the stages: ${sizes.join(", ")}`;
    const layers = row.stage_layers.length > 0 && `Layers of the stages: ${row.stage_layers.join("; ")}`;
    const words = [row.why || "The fastest strategy on this number of GPUs", row.objection && `The training ${row.objection}`, stages, layers, `MFU ${share(row.mfu)}`].filter(Boolean).join(". ");
    const save = h("button", { class: "secondary", "data-key": "plan perfetto", onclick: () => this.post({ type: "planPerfetto", row: row.rank }) }, "Save for Perfetto…");
    const question = { batchSize: null, whatifs: row.whatifs };
    const write = h("button", { "data-key": "plan write", title: row.whatifs.join(" "), onclick: () => this.post({ type: "applyTogether", question }) }, "Write the code");
    const written = row.whatifs.length > 0;
    return [
      h(
        "div",
        { class: "opened" },
        h("b", {}, `${row.rank}. ${row.label}`),
        h("div", {}, `${words}.`),
        ...strip("step", row.step_parts_ms, (value) => text(value, timeUnit(value))),
        ...strip("memory of a rank", row.memory_parts, (value) => text(value, byteUnit(value))),
        timeline ? lanes(timeline) : h("div", { class: "muted" }, "simulating…"),
        h("div", { class: "actions" }, written && hindered === "" && write, save),
        written ? hindered !== "" && h("div", { class: "muted" }, hindered) : h("div", { class: "muted" }, "Skyline writes code only for data and sharded parallelism (ddp, fsdp) of a script."),
      ),
    ];
  }
}

/** The reason why a strategy cannot be written into the code now. Empty if it can. */
function hindrance(state: ViewState): string {
  if (!state.trusted) return "The workspace is not trusted: Skyline does not write code.";
  return state.profile ? "" : "Skyline writes the code once the script is profiled.";
}

const NOT_YET = "Choose a cluster, which need not be present. Skyline traces the tensor shapes of the script for its GPU and runs nothing there. A model chosen by name, such as llama3-8b, needs no trace.";

/** Parts of a whole as a strip with its figures. */
function strip(title: string, parts: Readonly<Record<string, number>>, figure: (value: number) => string): HTMLElement[] {
  const shown = Object.entries(parts).filter(([, value]) => value > 0);
  const bar = h("div", { class: "strip" });
  for (const [name, value] of shown) {
    const piece = h("i", { class: `piece ${COLOURS[name] ?? name}`, title: `${name}: ${figure(value)}` });
    piece.style.flexGrow = String(value);
    bar.append(piece);
  }
  return [bar, h("div", { class: "muted caption" }, `${title}: ${shown.map(([name, value]) => `${name} ${figure(value)}`).join(", ")}`)];
}

/** The timeline of a row: a lane for each stream or stage. */
function lanes(report: TimelineReport): HTMLElement {
  const { simulated, labels, phases, begin_ms: begin, end_ms: end } = report;
  const unit = timeUnit(end);
  const rows = simulated.lanes.map((lane) => {
    const track = h("div", { class: "lane-track" });
    lane.start_ms.forEach((start, index) => {
      const until = lane.end_ms[index] ?? start;
      const count = lane.count[index] ?? 1;
      const name = labels[lane.label[index] ?? 0] ?? "";
      const piece = h("i", { class: phases[lane.phase[index] ?? 0] ?? "other", title: `${count > 1 ? `${count} pieces, the longest ` : ""}${name}: ${text(until - start, timeUnit(until - start))}` });
      piece.style.left = `${(100 * (start - begin)) / (end - begin)}%`;
      piece.style.width = `${(100 * (until - start)) / (end - begin)}%`;
      track.append(piece);
    });
    return h("div", { class: "lane" }, h("span", { class: "muted" }, lane.name), track);
  });
  return h("div", { class: "lanes", role: "img", "aria-label": `Timeline of one step, ${text(end, unit)}` }, ...rows, h("div", { class: "muted caption" }, `one step from 0 to ${text(end, unit)}; each stage is shown by one of its equal ranks`));
}

/** The strategies that are not in the table. */
function leftOut(report: PlanReport): HTMLElement {
  const refused = Object.entries(report.refused).map(([reason, count]) => `${count.toLocaleString("en")}: ${reason}`);
  const large = report.too_large.map((one) => `${one.label} on ${one.gpus} GPUs needs ${text(one.memory_bytes, byteUnit(one.memory_bytes))} of ${text(one.usable_bytes, byteUnit(one.usable_bytes))}`);
  return h("details", { class: "rest" }, h("summary", {}, "Not in the table"), ...[...refused, ...large, report.source].map((words) => h("div", { class: "muted row" }, words)));
}

function rate(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}

function hours({ hours: time }: Row): string {
  if (!time) return "-";
  return time.value >= 48 ? `${(time.value / 24).toFixed(1)} d` : `${time.value.toFixed(1)} h`;
}

function dollars({ usd }: Row): string {
  return usd ? `$${Math.round(usd.value).toLocaleString("en")}` : "-";
}
