/** What the side bar's page and the extension say to each other. */

import type {
  ApplyResult,
  BestReport,
  DevicesReport,
  EstimateReport,
  ProfileReport,
  Question,
  Refusal,
  VerifyReport,
  WhatIfReport,
} from "../protocol";

export type Stage = "idle" | "starting" | "unprofiled" | "profiling" | "ready" | "untrusted" | "trouble";

/** One clear message, and the command that mends it. */
export interface Trouble {
  readonly message: string;
  readonly fix?: { readonly title: string; readonly command: string };
}

/** Everything the page shows, but for what the person is doing at the moment. */
export interface ViewState {
  readonly stage: Stage;
  readonly script: { readonly uri: string; readonly name: string } | null;
  readonly trouble: Trouble | null;
  readonly progress: string;
  readonly stale: boolean;
  readonly trusted: boolean;
  readonly profile: ProfileReport | null;
  readonly whatifs: WhatIfReport | null;
  /** What is in the code but not in the profile. */
  readonly applied: Question;
  readonly refused: readonly Refusal[];
  readonly notice: string;
  readonly verifying: boolean;
  readonly verified: VerifyReport | null;
  readonly comparing: boolean;
  readonly devices: DevicesReport | null;
  readonly best: BestReport | null;
}

/** A part of the picture the pointer rests on, and so the code that it came from. */
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
  | { readonly type: "batchSize"; readonly batchSize: number }
  | { readonly type: "toggle"; readonly whatif: string; readonly on: boolean }
  | { readonly type: "applyTogether"; readonly question: Question }
  | { readonly type: "takeBack" }
  | { readonly type: "diff" }
  | { readonly type: "verify" }
  | { readonly type: "devices" }
  | { readonly type: "best" }
  | { readonly type: "snippet"; readonly name: string; readonly how: "copy" | "open" }
  | { readonly type: "open"; readonly place: Place }
  | { readonly type: "point"; readonly place: Place | null }
  | { readonly type: "command"; readonly command: string };

export type { ApplyResult };
