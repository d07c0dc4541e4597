/** Changes that outlive a reload of the window: the editor keeps the unsaved text, this keeps what was changed in it. */

import type { Question } from "../protocol";
import type { State } from "./history";

/** Where it is kept: the workspace's own store. */
export interface Store {
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

interface Kept {
  readonly profile: string;
  readonly states: readonly { readonly applied: Question; readonly part: Question | null; readonly texts: readonly (readonly [string, string])[] }[];
}

/** Beyond this many characters nothing is kept: the store is read when the window opens. */
const MOST_CHARACTERS = 2_000_000;

export class KeptChanges {
  constructor(private readonly store: Store) {}

  /** What was kept of a script, if it was over this profile. */
  of(uri: string, profile: string): State[] {
    const kept = this.store.get(keyOf(uri)) as Kept | undefined;
    if (kept?.profile !== profile) return [];
    return kept.states.map((state) => ({ ...state, texts: new Map(state.texts) }));
  }

  /** Keep these; none: nothing is kept any more. */
  keep(uri: string, profile: string, states: readonly State[]): void {
    const characters = states.reduce((sum, { texts }) => sum + [...texts.values()].reduce((own, text) => own + text.length, 0), 0);
    const kept: Kept = { profile, states: states.map((state) => ({ ...state, texts: [...state.texts] })) };
    void this.store.update(keyOf(uri), states.length > 0 && characters <= MOST_CHARACTERS ? kept : undefined);
  }
}

function keyOf(uri: string): string {
  return `changes ${uri}`;
}
