/** The plan of a script on clusters, as the view shows it. */

import type { PlanChoices, PlanParams, PlanReport, TimelineReport } from "../protocol";

/** The user's question. Empty texts are unset fields. */
export type PlanAsked = Readonly<Pick<Required<PlanParams>, "cluster" | "model" | "gpus" | "amount" | "budget" | "deadline">>;

export interface PlanState {
  readonly choices: PlanChoices | null;
  readonly asked: PlanAsked | null;
  readonly planning: boolean;
  readonly report: PlanReport | null;
  /** The reason why there is no plan or no timeline. */
  readonly reason: string;
  readonly opened: { readonly row: number; readonly timeline: TimelineReport | null } | null;
}

export const NO_PLAN: PlanState = { choices: null, asked: null, planning: false, report: null, reason: "", opened: null };
