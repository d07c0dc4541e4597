/** State of a script, kept while another one is shown. */

import * as path from "node:path";
import type * as vscode from "vscode";
import type { Marks } from "../editor/marks";
import { commandOf } from "../launch/launcher";
import type { RunOptions } from "../launch/configurations";
import { asLine } from "../launch/words";
import type { BestReport, CodeChanges, DevicesReport, EntryScripts, ProfileReport, VerifyReport, WhatIfReport } from "../protocol";
import type { ViewState } from "../view/messages";
import { NO_PLAN } from "../view/plan-state";
import { NO_RUNS } from "../view/runs-state";
import { appliedOf, Changes, type Outcome } from "./changes";
import { Planning } from "./planning";
import { Runs } from "./runs";

export interface Known {
  readonly uri: vscode.Uri;
  readonly changes: Changes;
  profile: ProfileReport | null;
  whatifs: WhatIfReport | null;
  /** Differences between the code and the profile. */
  code: CodeChanges | null;
  stale: boolean;
  error: string | null;
  /** The script's usage text, if the latest run failed because of its arguments. */
  usage: string | null;
  /** The scripts that can profile the file. Null if not known yet. */
  entry: EntryScripts | null;
  /** True for a trace of PyTorch's profiler: there is no script to run or change. */
  isTrace: boolean;
  /** Progress text of the current run. Empty if there is none. */
  progress: string;
  outcome: Outcome;
  verifying: boolean;
  verified: VerifyReport | null;
  comparing: boolean;
  devices: DevicesReport | null;
  best: BestReport | null;
  readonly planning: Planning;
  readonly others: Runs;
}

export const NOTHING: Outcome = { refused: [], notice: "" };

/** The initial state of a script. `changed` is called when its plans or trials change. */
export function nothingKnown(uri: vscode.Uri, marks: Marks, changed: () => void): Known {
  const key = uri.toString();
  return {
    uri,
    changes: new Changes(key, marks),
    profile: null,
    whatifs: null,
    code: null,
    stale: false,
    error: null,
    usage: null,
    entry: null,
    isTrace: false,
    progress: "",
    outcome: NOTHING,
    verifying: false,
    verified: null,
    comparing: false,
    devices: null,
    best: null,
    planning: new Planning(key, changed),
    others: new Runs(key, changed),
  };
}

/** The part of the view's state that belongs to a script with its latest run options. Null: no script is shown. */
export function shownOf(known: Known | null, options: RunOptions | null): Omit<ViewState, "stage" | "module" | "trouble" | "trusted"> {
  return {
    arguments: known ? asLine(options?.args ?? []) : "",
    command: known ? asLine(commandOf(options, known.uri.fsPath)) : "",
    script: known ? { uri: known.uri.toString(), name: path.basename(known.uri.fsPath) } : null,
    isTrace: known?.isTrace ?? false,
    progress: known?.progress ?? "",
    stale: known?.stale ?? false,
    profile: known?.profile ?? null,
    whatifs: known?.whatifs ?? null,
    applied: appliedOf(known?.code),
    removed: known?.code?.removed ?? [],
    changes: known?.code?.changes ?? [],
    canVerify: (known?.code?.verify ?? null) !== null,
    refused: known?.outcome.refused ?? [],
    notice: known?.outcome.notice ?? "",
    verifying: known?.verifying ?? false,
    verified: known?.verified ?? null,
    comparing: known?.comparing ?? false,
    devices: known?.devices ?? null,
    best: known?.best ?? null,
    plan: known?.planning.state ?? NO_PLAN,
    runs: known?.others.state ?? NO_RUNS,
  };
}
