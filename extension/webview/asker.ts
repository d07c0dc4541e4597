/** Questions asked faster than they are answered: one under way, the newest next, those between dropped. */

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

  /** Ask; where another is asked before this one has gone out, this one never does. */
  ask(question: Question, curve: boolean, answered: Answered): void {
    // A curve that was wanted is still wanted, whatever else is asked in its place.
    this.#next = { question, curve: curve || (this.#next?.curve ?? false), answered };
    this.#send();
  }

  /** Ask something that no other question takes the place of. */
  askAside(question: Question, answered: Answered): void {
    const id = ++this.#last;
    this.#aside.set(id, answered);
    this.post({ type: "simulate", id, question, curve: false });
  }

  /** An answer has come. One that nobody waits for any more is dropped. */
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

  /** Nobody waits for an answer any more. */
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
