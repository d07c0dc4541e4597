/** Changes in the person's code: made, taken out and taken back by the server, each as one undo step. */

import { EditRecorder, type Marks } from "../editor/marks";
import { type ApplyResult, METHODS, type Question, type Refusal } from "../protocol";
import type { Connection } from "../server/client";

/** What came of a change: what was refused, and a sentence where there is something to say. */
export interface Outcome {
  readonly refused: readonly Refusal[];
  readonly notice: string;
}

export const UNCHANGED: Question = { batchSize: null, whatifs: [] };

export class Changes {
  #busy: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly uri: string,
    private readonly marks: Marks,
  ) {}

  /** Write a change into the code, unsaved. */
  make(connection: Connection, part: Question): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.apply, { uri: this.uri, ...part }));
  }

  /** Take one what-if out of the code, whoever wrote it. */
  remove(connection: Connection, whatif: string): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.remove, { uri: this.uri, whatif: nameOf(whatif) }));
  }

  /** Take the latest change back. */
  takeBack(connection: Connection): Promise<Outcome> {
    return this.#inTurn(() => connection.request(METHODS.revert, { uri: this.uri }), false);
  }

  /** One after the other; the lines that a change touches are marked. */
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

/** `amp` of `amp=bf16`. */
export function nameOf(whatif: string): string {
  return whatif.split("=", 1)[0] ?? whatif;
}
