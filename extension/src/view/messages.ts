/** What the side bar's page and the extension say to each other. */

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

export type Stage = "idle" | "notebook" | "starting" | "module" | "unprofiled" | "profiling" | "ready" | "untrusted" | "trouble";

/** A command that mends something, as a button. */
export interface Fix {
  readonly title: string;
  readonly command: string;
}

/** One clear message, and the commands that mend it, the likeliest first. */
export interface Trouble {
  readonly message: string;
  /** What a script printed about its arguments. */
  readonly usage?: string;
  readonly fix?: Fix;
  readonly more?: readonly Fix[];
}

/** Everything the page shows, but for what the person is doing at the moment. */
export interface ViewState {
  readonly stage: Stage;
  readonly script: { readonly uri: string; readonly name: string } | null;
  /** The notebook in the editor; empty: there is none. */
  readonly notebook: string;
  /** The file in the editor where it is a module, and the scripts that train with it; null: it is a script itself. */
  readonly module: { readonly name: string; readonly scripts: readonly string[] } | null;
  /** What the script is given on its command line by the person's choice; empty: what the settings say. */
  readonly arguments: string;
  readonly trouble: Trouble | null;
  readonly progress: string;
  readonly stale: boolean;
  readonly trusted: boolean;
  readonly profile: ProfileReport | null;
  readonly whatifs: WhatIfReport | null;
  /** What is in the code but not in the profile. */
  readonly applied: Question;
  /** What-ifs, by name, that are in the profile but not in the code any more. */
  readonly removed: readonly string[];
  /** Changes of Skyline's that are in the code, oldest first, whether they are in the profile or not. */
  readonly changes: readonly CodeChange[];
  readonly canVerify: boolean;
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
  | { readonly type: "live"; readonly batchSize: number | null }
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
