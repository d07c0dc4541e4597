/** Queue for questions that come faster than their answers: one is pending, the newest is next, others are dropped. */

import type { EstimateReport, Question } from "../src/protocol";
import type { FromView } from "../src/view/messages";

type Answered = (estimate: EstimateReport | null, reason: string) => void;

interface Asked {
  readonly id: number;
  readonly answered: Answered;
}

export class Asker {
  #last = 0;
  #underWay: Asked | null = null;
  #next: { readonly question: Question; readonly curve: boolean; readonly answered: Answered } | null = null;
  readonly #aside = new Map<number, Answered>();

  constructor(private readonly post: (message: FromView) => void) {}

  /** Ask a question. It is dropped if a newer one is asked before it is sent. */
  ask(question: Question, curve: boolean, answered: Answered): void {
    // Keep an earlier request for the curve, even if a newer question replaces it.
    this.#next = { question, curve: curve || (this.#next?.curve ?? false), answered };
    this.#send();
  }

  /** Ask a question that newer ones do not replace. */
  askAside(question: Question, answered: Answered): void {
    const id = ++this.#last;
    this.#aside.set(id, answered);
    this.post({ type: "simulate", id, question, curve: false });
  }

  /** Handle an answer. Answers to dropped questions are ignored. */
  answered(id: number, estimate: EstimateReport | null, reason: string): void {
    const aside = this.#aside.get(id);
    if (aside) {
      this.#aside.delete(id);
      aside(estimate, reason);
    } else if (this.#underWay?.id === id) {
      const { answered } = this.#underWay;
      this.#underWay = null;
      answered(estimate, reason);
      this.#send();
    }
  }

  /** Drop all questions. */
  forget(): void {
    this.#underWay = null;
    this.#next = null;
    this.#aside.clear();
  }

  #send(): void {
    if (this.#underWay || !this.#next) return;
    const { question, curve, answered } = this.#next;
    this.#next = null;
    const id = ++this.#last;
    this.#underWay = { id, answered };
    this.post({ type: "simulate", id, question, curve });
  }
}
