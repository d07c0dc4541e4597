/** The changes made in the code from the view: what is in it now, told from its texts, so that undo and redo count. */

import type { Question } from "../protocol";

export const UNCHANGED: Question = { batchSize: null, whatifs: [] };

/** The texts of the files that were touched, by URI. */
export type Texts = ReadonlyMap<string, string>;

export interface State {
  readonly applied: Question;
  readonly texts: Texts;
  /** What was added to get here; null at the beginning. */
  readonly part: Question | null;
}

const NO_TEXTS: Texts = new Map();

export class History {
  #states: State[] = [];
  #at = 0;

  /** What is in the code now, over what was profiled. */
  get applied(): Question {
    return this.#states[this.#at]?.applied ?? UNCHANGED;
  }

  /** How many changes are in the code. */
  get depth(): number {
    return this.#at;
  }

  /** The files as they were before the first change. */
  get original(): Texts {
    return this.#states[0]?.texts ?? NO_TEXTS;
  }

  /** The changes that are in the code, oldest first. */
  get parts(): readonly Question[] {
    return this.#states.slice(1, this.#at + 1).flatMap((state) => state.part ?? []);
  }

  /** A change was made; whatever was undone before it cannot be redone any more. */
  push(part: Question, before: Texts, after: Texts): void {
    const kept = this.#states.slice(0, this.#at + 1);
    const first: State = kept[0] ?? { applied: UNCHANGED, texts: new Map(), part: null };
    kept[0] = { ...first, texts: new Map([...before, ...first.texts]) };
    const earlier = kept.at(-1)?.texts ?? new Map<string, string>();
    kept.push({ applied: merged(this.applied, part), texts: new Map([...earlier, ...after]), part });
    this.#states = kept;
    this.#at = kept.length - 1;
  }

  /** The texts as the latest change found them; none where there is no change. */
  get beforeLatest(): Texts {
    return this.#at > 0 ? (this.#states[this.#at - 1]?.texts ?? NO_TEXTS) : NO_TEXTS;
  }

  /** The texts as the latest change left them; none where there is no change. */
  get now(): Texts {
    return this.#at > 0 ? (this.#states[this.#at]?.texts ?? NO_TEXTS) : NO_TEXTS;
  }

  /** All of it, to be taken up again later. */
  get states(): readonly State[] {
    return this.#states;
  }

  /** Take up what was kept, if some state of it reads as the texts do now. True where that is so. */
  resume(states: readonly State[], read: (uri: string) => string | undefined): boolean {
    this.#states = [...states];
    this.#at = -1;
    if (this.look(read)) return true;
    this.clear();
    return false;
  }

  /** Changes were taken back until so many were left. */
  shrink(depth: number): void {
    this.#at = Math.max(0, Math.min(depth, this.#states.length - 1));
  }

  /** Look at the texts: after an undo or a redo they read as they did at some point. True where that moved us. */
  look(read: (uri: string) => string | undefined): boolean {
    const found = this.#states.findLastIndex(({ texts }) => [...texts].every(([uri, text]) => read(uri) === text));
    if (found < 0 || found === this.#at) return false;
    this.#at = found;
    return true;
  }

  clear(): void {
    this.#states = [];
    this.#at = 0;
  }
}

/** A question and a part of another: of two batch sizes, or two values of one what-if, the later counts. */
export function merged(question: Question, part: Question): Question {
  const names = new Set(part.whatifs.map(nameOf));
  return {
    batchSize: part.batchSize ?? question.batchSize,
    whatifs: [...question.whatifs.filter((whatif) => !names.has(nameOf(whatif))), ...part.whatifs],
  };
}

/** A question without some of its what-ifs, by their names; without the batch size where that is among them. */
export function without(question: Question, names: readonly string[]): Question {
  return {
    batchSize: names.includes("batch_size") ? null : question.batchSize,
    whatifs: question.whatifs.filter((whatif) => !names.includes(nameOf(whatif))),
  };
}

/** Whether nothing is asked. */
export function isEmpty(question: Question): boolean {
  return question.batchSize === null && question.whatifs.length === 0;
}

/** `amp` of `amp=bf16`. */
export function nameOf(whatif: string): string {
  return whatif.split("=", 1)[0] ?? whatif;
}
