/** Changes of the user's code. The server makes, removes and reverts them, each as one undo step. */

import { EditRecorder, type Marks } from "../editor/marks";
import { type ApplyResult, type CodeChanges, METHODS, type Question, type Refusal } from "../protocol";
import type { Connection } from "../server/client";

/** Result of a change: the refused parts, and a notice for the user or an empty string. */
export interface Outcome {
  readonly refused: readonly Refusal[];
  readonly notice: string;
}

export const UNCHANGED: Question = { batchSize: null, whatifs: [] };

/** The changes that are in the code but not in the profile. */
export function appliedOf(code: CodeChanges | null | undefined): Question {
  return code ? { batchSize: code.batchSize, whatifs: code.whatifs } : UNCHANGED;
}

/** True if two verifications would measure the same changes over the same profile. */
export function asksTheSame(one: CodeChanges["verify"] | undefined, other: CodeChanges["verify"] | undefined): boolean {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

export class Changes {
  #busy: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly uri: string,
    private readonly marks: Marks,
  ) {}

  /** Write a change into the code without saving it. */
  make(connection: Connection, part: Question): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.apply, { uri: this.uri, ...part }));
  }

  /** Remove one what-if from the code, even if Skyline did not write it. */
  remove(connection: Connection, whatif: string): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.remove, { uri: this.uri, whatif: nameOf(whatif) }));
  }

  /** Revert the latest change. */
  takeBack(connection: Connection): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.revert, { uri: this.uri }), false);
  }

  /** Run changes one after the other, and mark the lines that each one edits. */
  #inTurn(ask: () => Promise<ApplyResult>, marked = true): Promise<Outcome> {
    const turn = this.#busy.then(async () => {
      const recorder = new EditRecorder();
      let result: ApplyResult;
      try {
        result = await ask();
      } finally {
        const lines = recorder.stop();
        if (lines.length > 0) this.marks.changed(marked ? lines : []);
      }
      return { refused: result.refused, notice: result.applied || result.refused.length > 0 ? "" : (result.reason ?? "") };
    });
    this.#busy = turn.catch(() => undefined);
    return turn;
  }
}

/** The name in a what-if spec: `amp` for `amp=bf16`. */
export function nameOf(whatif: string): string {
  return whatif.split("=", 1)[0] ?? whatif;
}
