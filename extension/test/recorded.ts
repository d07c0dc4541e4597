/** Answers of the real server about the end-to-end scripts, recorded by `fixtures/make.py`. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CodeChanges, EstimateReport, ProfileReport, WhatIfReport } from "../src/protocol";

export const KINDS = ["argparse", "dataclass", "split", "yaml"] as const;
export type Kind = (typeof KINDS)[number];

interface Answer {
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
  readonly curve: boolean;
  readonly estimate: EstimateReport;
}

export interface Recorded {
  readonly profile: ProfileReport;
  readonly whatifs: WhatIfReport;
  readonly code: CodeChanges;
  readonly answers: readonly Answer[];
}

export function recorded(kind: Kind): Recorded {
  return JSON.parse(readFileSync(join(import.meta.dirname, `fixtures/${kind}.json`), "utf8")) as Recorded;
}

/** The recorded answer to a question. For a batch size without an answer, that of the nearest one. */
export function answerTo({ answers }: Recorded, batchSize: number | null, whatifs: readonly string[], curve: boolean): EstimateReport {
  const fitting = answers.filter((answer) => answer.curve === curve && String(answer.whatifs) === String(whatifs));
  const distance = (answer: Answer): number => Math.abs((answer.batchSize ?? 0) - (batchSize ?? 0));
  const [nearest] = [...fitting].sort((a, b) => distance(a) - distance(b));
  if (!nearest) throw new Error(`nothing was recorded for ${String(whatifs)}`);
  return nearest.estimate;
}
