/** A watched run and a search by trials, as the server answers. */

import type { Interval, TuneProgress, TuneReport, WatchReport } from "../src/protocol";

type Trial = TuneReport["trials"][number];

const around = (value: number): Interval => ({ value, low: 0.97 * value, high: 1.03 * value });

export function run(news: Partial<WatchReport> = {}): WatchReport {
  return {
    name: "train-watch-20260102-030405.jsonl",
    command: ["python", "train.py"],
    started: "2026-01-02T03:04:05+00:00",
    state: "running",
    exit_code: null,
    duration_s: 100,
    ranks: 1,
    points: [1, 2, 3].map((step) => ({ at_s: 5 * step, iteration: 500 * step, iteration_ms: 10 + step, wait_share: 0.2, forward_share: 0.3, loss: 2 / step, memory_bytes: 2e9 })),
    alerts: [
      { rule: "checkpoint_stalls", rank: 0, at_s: 4, iteration: 400, title: "saving takes 12 % of the time", evidence: ["3.1 s each"], file: "", line: 0, over_iteration: 900 },
      { rule: "loader_stalls", rank: 0, at_s: 9, iteration: 1000, title: "the loop waits for data 20 % of the time", evidence: ["12 ms per batch"], file: "/home/ada/train.py", line: 9, over_iteration: null },
    ],
    messages: [],
    watching_share: 0.002,
    logged: null,
    names: ["train-watch-20260102-030405.jsonl"],
    ...news,
  };
}

function trial(changes: readonly string[], speedup: number | null, news: Partial<Trial> = {}): Trial {
  return { changes, predicted: around(1.2), speedup: speedup === null ? null : around(speedup), null: 1, peak_bytes: 1.9e9, took_s: 14, dropped: speedup === null, reason: speedup === null ? "no compiler" : null, worker: null, ...news };
}

export const TRIALS = [trial(["num_workers=2"], 1.09), trial(["batch_size=64", "num_workers=4"], 1.21)] as const;

export function progress(news: Partial<TuneProgress> = {}): TuneProgress {
  return { uri: "file:///home/ada/train.py", running: true, doing: "trial 3: measure", budget_s: 300, spent_s: 60, trials: TRIALS, best: 1, ...news };
}

export function found(news: Partial<TuneReport> = {}): TuneReport {
  return {
    schema: "skyline.tune/1",
    script: "/home/ada/train.py",
    allowed: "exact",
    outcome: "faster",
    budget_s: 300,
    spent_s: 92,
    trial_s: 14,
    ended: "no combination left is likely to gain more",
    trials: [...TRIALS, trial(["compile"], null)],
    best: TRIALS[1],
    verified: trial(["batch_size=64", "num_workers=4"], 1.2),
    semantics: "exact",
    command: "skyline apply train.py batch_size=64 num_workers=4",
    diff: "",
    suggested: [],
    suggested_speedup: null,
    left_out: [],
    notes: [],
    ...news,
  };
}
