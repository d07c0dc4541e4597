/** Messages between the side bar's page and the extension. */

import type {
  ApplyResult,
  BestReport,
  CodeChange,
  DevicesReport,
  EstimateReport,
  ProfileReport,
  Question,
  Refusal,
  VerifyReport,
  WhatIfReport,
} from "../protocol";
import type { PlanAsked, PlanState } from "./plan-state";
import type { RunsState, SearchAsked } from "./runs-state";

export type Stage = "idle" | "starting" | "module" | "unprofiled" | "profiling" | "ready" | "untrusted" | "trouble";

/** A command that fixes a problem, shown as a button. */
export interface Fix {
  readonly title: string;
  readonly command: string;
}

/** A problem with the commands that fix it, most likely first. */
export interface Trouble {
  readonly message: string;
  /** The script's usage text. */
  readonly usage?: string;
  readonly fix?: Fix;
  readonly more?: readonly Fix[];
}

/** The state of the page, without the user's current interaction. */
export interface ViewState {
  readonly stage: Stage;
  readonly script: { readonly uri: string; readonly name: string } | null;
  /** The file in the editor if it is a module, with the scripts that train with it. Null if it is a script. */
  readonly module: { readonly name: string; readonly scripts: readonly string[] } | null;
  /** Command-line arguments chosen by the user. Empty: those of the settings. */
  readonly arguments: string;
  /** The whole command, if the user chose a launcher such as torchrun. Empty otherwise. */
  readonly command: string;
  /** True if a trace of PyTorch's profiler is shown: there is no script to run or change. */
  readonly isTrace: boolean;
  readonly trouble: Trouble | null;
  readonly progress: string;
  readonly stale: boolean;
  readonly trusted: boolean;
  readonly profile: ProfileReport | null;
  readonly whatifs: WhatIfReport | null;
  /** Changes that are in the code but not in the profile. */
  readonly applied: Question;
  /** Names of what-ifs that are in the profile but no longer in the code. */
  readonly removed: readonly string[];
  /** All changes by Skyline in the code, oldest first, including those in the profile. */
  readonly changes: readonly CodeChange[];
  readonly canVerify: boolean;
  readonly refused: readonly Refusal[];
  readonly notice: string;
  readonly verifying: boolean;
  readonly verified: VerifyReport | null;
  readonly comparing: boolean;
  readonly devices: DevicesReport | null;
  readonly best: BestReport | null;
  readonly plan: PlanState;
  readonly runs: RunsState;
}

/** A part of the page that belongs to places in the code. */
export type Place =
  | { readonly kind: "batchSize" }
  | { readonly kind: "phase"; readonly phase: string }
  | { readonly kind: "memory" }
  | { readonly kind: "whatif"; readonly whatif: string }
  | { readonly kind: "line"; readonly file: string; readonly line: number; readonly source: string };

export type ToView =
  | { readonly type: "state"; readonly state: ViewState }
  | { readonly type: "estimate"; readonly id: number; readonly estimate: EstimateReport | null; readonly reason: string };

export type FromView =
  | { readonly type: "ready" }
  | { readonly type: "simulate"; readonly id: number; readonly question: Question; readonly curve: boolean }
  | { readonly type: "live"; readonly batchSize: number | null }
  | { readonly type: "batchSize"; readonly batchSize: number }
  | { readonly type: "toggle"; readonly whatif: string; readonly on: boolean }
  | { readonly type: "applyTogether"; readonly question: Question }
  | { readonly type: "takeBack" }
  | { readonly type: "diff" }
  | { readonly type: "verify" }
  | { readonly type: "devices" }
  | { readonly type: "best" }
  | { readonly type: "planChoices" }
  | { readonly type: "plan"; readonly asked: PlanAsked }
  | { readonly type: "planRow"; readonly row: number }
  | { readonly type: "planPerfetto"; readonly row: number }
  | { readonly type: "watch"; readonly follow: boolean }
  | { readonly type: "trials" }
  | { readonly type: "search"; readonly asked: SearchAsked }
  | { readonly type: "snippet"; readonly name: string; readonly how: "copy" | "open" }
  | { readonly type: "open"; readonly place: Place }
  | { readonly type: "point"; readonly place: Place | null }
  | { readonly type: "command"; readonly command: string };

export type { ApplyResult };
