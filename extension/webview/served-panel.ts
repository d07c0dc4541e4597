/** The bars and switches on the page of `skyline serve`. They choose a change, and a button writes it into the code. */

import chart from "uplot/dist/uPlot.min.css";
import type { BestReport, EstimateReport, ProfileReport, Question, WhatIfReport } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import { NO_PLAN } from "../src/view/plan-state";
import { NO_RUNS } from "../src/view/runs-state";
import { Asker } from "./asker";
import { Board } from "./board";
import { fill, h } from "./dom";
import place from "./served-panel.css";
import { best } from "./results";
import style from "./style.css";
import { change, countIn, rateUnit, timeUnit } from "./units";
import { nameOf, WhatIfs } from "./whatifs";

/** The data that the page holds as JSON. */
export interface PageData {
  readonly profile: ProfileReport;
  readonly whatif: WhatIfReport;
}

/** The server's answer about a change of the code. Also sent for a question that cannot be answered. */
interface Told {
  readonly text: string;
  readonly diff?: string;
}

/** A question, and names of what-ifs to remove from the profiled code. */
interface Choice extends Question {
  readonly removes: readonly string[];
}

const NOTHING: Choice = { batchSize: null, whatifs: [], removes: [] };

export class Panel {
  readonly root = h("section", { id: "panel", "aria-label": "What if" });
  readonly #asker = new Asker((message) => this.#receive(message));
  readonly #board = new Board((message) => this.#receive(message), this.#asker, false);
  readonly #whatIfs = new WhatIfs((message) => this.#receive(message), this.#asker);
  readonly #predicted = h("output", { class: "predicted", "aria-live": "polite" });
  readonly #buttons = h("div", { class: "actions" });
  readonly #told = h("output", { class: "told", "aria-live": "polite" });
  readonly #diff = h("pre", { class: "diff", tabindex: 0, "aria-label": "Diff" });
  #data: PageData | null = null;
  #writes = false;
  #measuring = false;
  #chosen = NOTHING;
  /** The batch size of a bar that is held. */
  #held: number | null = null;
  #asked = 0;

  constructor() {
    const result = h("div", { class: "result" }, h("div", { class: "outcome" }, this.#predicted, this.#buttons, this.#told), this.#diff);
    const parts = h("div", { class: "panel" }, this.#board.root, this.#whatIfs.root, result);
    this.root.attachShadow({ mode: "open" }).append(h("style", {}, chart + style + place), h("h2", {}, "What if"), parts);
  }

  /** Show the data of a page. `writes`: its server can write changes into the code. */
  show(data: PageData, writes: boolean): void {
    countIn(data.profile.contents);
    this.#data = data;
    this.#writes = writes;
    // A newer profile may already contain a part of the choice, or rule it out.
    const { batchSize, whatifs, removes } = this.#chosen;
    const has = (name: string, wanted: (estimate: EstimateReport) => boolean): boolean => data.whatif.estimates.some((one) => one.name === name && wanted(one));
    this.#chosen = {
      batchSize: this.#other(batchSize),
      whatifs: whatifs.filter((whatif) => has(nameOf(whatif), (one) => one.applicable)),
      removes: removes.filter((name) => has(name, (one) => one.present !== null)),
    };
    this.#draw();
  }

  /** A batch size. Null if it equals the profile's. */
  #other(batchSize: number | null): number | null {
    return batchSize === this.#data?.profile.batch_size.value ? null : batchSize;
  }

  /** Set whether a current measurement still adds to the profile. */
  measures(measuring: boolean): void {
    if (measuring === this.#measuring) return;
    this.#measuring = measuring;
    this.#draw();
  }

  #draw(): void {
    const state = this.#data && stateOf(this.#data, this.#chosen, this.#measuring);
    if (!state) return;
    this.#held = null;
    if (asksNothing(this.#chosen)) this.#predicted.textContent = "";
    this.#board.show(state);
    this.#whatIfs.show(state);
    const nothing = this.#changesNothing;
    const some = this.#writes && !nothing;
    const advised = nothing ? this.#data?.whatif.verdict?.choice : null;
    const button = (title: string, kind: string, onclick: () => void): HTMLElement => h("button", { class: kind, "data-key": title, onclick }, title);
    fill(
      this.#buttons,
      advised ? button(`Try ${advised}`, "secondary", () => this.#choose(questionOf(advised))) : null,
      some && button("Write into the code", "", () => void this.#tell("apply")),
      some && button("Reset", "secondary", () => this.#choose(NOTHING)),
      this.#writes && button("Undo", "secondary", () => void this.#tell("revert")),
    );
  }

  #receive(message: FromView): void {
    switch (message.type) {
      case "simulate":
        void this.#simulate(message.id, message.question, message.curve);
        break;
      case "live":
        this.#held = message.batchSize;
        if (asksNothing(this.#current)) this.#predicted.textContent = "";
        break;
      case "batchSize":
        this.#choose({ ...this.#chosen, batchSize: this.#other(message.batchSize) });
        break;
      case "toggle":
        this.#toggle(message.whatif, message.on);
        break;
      case "applyTogether":
        this.#choose({ ...NOTHING, ...message.question, batchSize: this.#other(message.question.batchSize) });
        if (this.#writes) void this.#tell("apply");
        break;
      case "best":
        void this.#findBest();
    }
  }

  /** Choose a what-if, or drop the choice. A what-if in the profiled code is removed, or kept. */
  #toggle(whatif: string, on: boolean): void {
    const { whatifs, removes } = this.#chosen;
    const name = nameOf(whatif);
    const kept = this.#data?.whatif.estimates.find((one) => one.name === name)?.present;
    if (typeof kept === "string" && whatif === (kept ? `${name}=${kept}` : name)) {
      this.#choose({ ...this.#chosen, removes: on ? removes.filter((one) => one !== name) : [...removes, name] });
    } else {
      const others = whatifs.filter((one) => nameOf(one) !== name);
      this.#choose({ ...this.#chosen, whatifs: on ? [...others, whatif] : others });
    }
  }

  get #changesNothing(): boolean {
    return asksNothing(this.#chosen) && this.#chosen.removes.length === 0;
  }

  get #current(): Question {
    return { batchSize: this.#held ?? this.#chosen.batchSize, whatifs: this.#chosen.whatifs };
  }

  /** Predict a choice, and show its diff. */
  #choose(chosen: Choice): void {
    this.#chosen = chosen;
    this.#draw();
    if (this.#writes) void this.#tell("preview");
  }

  async #simulate(id: number, question: Question, curve: boolean): Promise<void> {
    const answer = await ask<EstimateReport>(curve ? "curve" : "simulate", question);
    const estimate = "text" in answer ? null : answer;
    this.#asker.answered(id, estimate, "");
    // Ignore other questions: the bar may have moved on, and lists of values ask about a single what-if.
    if (JSON.stringify(question) === JSON.stringify(this.#current)) this.#predicted.textContent = this.#words(answer);
  }

  #words(answer: EstimateReport | Told): string {
    const profile = this.#data?.profile;
    if (!profile || "text" in answer) return "text" in answer ? answer.text : "";
    // The code can be changed nevertheless, as the diff shows.
    if (!answer.applicable) return `No prediction: ${answer.reason ?? "not known"}`;
    const rate = answer.throughput ? ` · ${change(profile.throughput, answer.throughput, rateUnit)}` : "";
    return `Predicted: ${change(profile.iteration_ms, answer.iteration_ms, timeUnit)} per iteration${rate}`;
  }

  async #findBest(): Promise<void> {
    const answer = await ask<BestReport>("best", NOTHING);
    this.#asked += 1;
    this.#diff.textContent = "";
    const found = "text" in answer ? answer.text : best(answer, this.#data?.whatif.baseline ?? null, (message) => this.#receive(message));
    this.#told.replaceChildren(found);
  }

  /** Show the answer about the choice, unless another question was asked in the meantime. */
  async #tell(question: "preview" | "apply" | "revert"): Promise<void> {
    const mine = ++this.#asked;
    const nothing = question === "preview" && this.#changesNothing;
    const answer: Told = nothing ? { text: "" } : await ask<Told>(question, this.#chosen);
    if (mine !== this.#asked) return;
    this.#told.textContent = answer.text;
    const kinds: Readonly<Record<string, string>> = { "+": "better", "-": "worse" };
    const lines = answer.diff ? answer.diff.split(/(?<=\n)/) : [];
    this.#diff.replaceChildren(...lines.map((line) => h("span", { class: kinds[line[0] ?? ""] ?? "" }, line)));
  }
}

function asksNothing({ batchSize, whatifs }: Question): boolean {
  return batchSize === null && whatifs.length === 0;
}

/** The choice for a change given as text, such as the change of the verdict. */
function questionOf(choice: string): Choice {
  const [name, value] = choice.split("=");
  return name === "batch_size" ? { ...NOTHING, batchSize: Number(value) } : { ...NOTHING, whatifs: [choice] };
}

async function ask<T>(name: string, question: Question): Promise<T | Told> {
  try {
    const response = await fetch(name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
    return (await response.json()) as T | Told;
  } catch {
    return { text: "skyline serve does not answer: start it again to continue." };
  }
}

/** The state of the view for a choice. */
function stateOf({ profile, whatif }: PageData, { removes, ...applied }: Choice, measuring: boolean): ViewState {
  return {
    stage: "ready",
    script: { uri: profile.script, name: profile.script },
    module: null,
    arguments: "",
    command: "",
    isTrace: false,
    trouble: null,
    progress: measuring ? "The script is being measured." : "",
    stale: false,
    trusted: true,
    profile,
    whatifs: whatif,
    applied,
    removed: removes,
    changes: [],
    canVerify: false,
    refused: [],
    notice: "",
    verifying: false,
    verified: null,
    comparing: false,
    devices: null,
    best: null,
    plan: NO_PLAN,
    runs: NO_RUNS,
  };
}
