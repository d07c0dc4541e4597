/** The watched training of a script and the search by trials, as the view shows them. */

import type { TuneParams, TuneProgress, TuneReport, WatchReport } from "../protocol";

/** The limits of a search. */
export type SearchAsked = Readonly<Pick<Required<TuneParams>, "budgetSeconds" | "allow" | "resume">>;

export interface RunsState {
  /** The latest watched run. Null without one. */
  readonly watched: WatchReport | null;
  /** The trials so far, or those of the last search. */
  readonly trials: TuneProgress | null;
  readonly searching: boolean;
  readonly found: TuneReport | null;
  /** The reason why there is no run or no result. */
  readonly reason: string;
}

export const NO_RUNS: RunsState = { watched: null, trials: null, searching: false, found: null, reason: "" };
