/** A plan of two rows on one cluster, as the server answers. */

import type { Interval, PlanChoices, PlanReport, TimelineReport } from "../src/protocol";

type Row = PlanReport["rows"][number];

const around = (value: number): Interval => ({ value, low: 0.9 * value, high: 1.1 * value });

export const choices: PlanChoices = {
  clusters: ["dgx-a100", "dgx-h100"].map((name) => ({ name, gpu: name.slice(4).toUpperCase(), nodes: 1, gpus_per_node: 8, inside_gb_s: 300, between_gb_s: 200, usd_per_node_hour: 32.77, source: "a data sheet" })),
  models: ["gpt2", "llama3-8b"],
};

function row(rank: number, sharding: Row["strategy"]["sharding"], step: number, news: Partial<Row> = {}): Row {
  return {
    rank,
    label: `${sharding} 8, micro-batch 32 x 1`,
    gpus: 8,
    strategy: { data: 8, sharding, tensor: 1, pipeline: 1, context: 1, expert: 1, micro_batch: 32, accumulation: 1, schedule: "1f1b", chunks: 1, recompute: "none", precision: "amp_bf16", offload: false, compiled: false, async_tensor: false, sent: 1, stage_blocks: [], stage_recomputed: [] },
    step_ms: around(step),
    units_per_s: around(256e3 / step),
    mfu: 0.4,
    memory_bytes: around(31e9),
    memory_parts: { parameters: 4e9, gradients: 4e9, optimizer: 8e9, activations: 15e9 },
    step_parts_ms: { computation: 70, communication: step - 75, bubble: 0, optimizer: 5 },
    limit: "communication 6 %",
    slower_than_best: step / 80,
    hours: null,
    usd: null,
    objection: "",
    why: "",
    whatifs: [],
    stage_memory_bytes: [],
    stage_layers: [],
    ...news,
  };
}

export const report: PlanReport = {
  schema: "skyline.plan/1",
  provenance: "modelled",
  model: "train.py",
  unit: "samples",
  cluster: "dgx-a100",
  gpu: "A100-80GB",
  source: "a data sheet",
  considered: 144,
  fitting: 18,
  refused: { "does not fit the GPU's memory": 126 },
  too_large: [{ label: "ddp 8, micro-batch 64 x 1", gpus: 8, memory_bytes: 97.1e9, usable_bytes: 80.8e9 }],
  advice: "",
  rows: [
    row(1, "ddp", 80, { whatifs: ["data_parallel=8"] }),
    row(2, "fsdp", 92, { why: "15 % slower than the fastest on 8 GPUs: communication +15 %" }),
  ],
};

export const timeline: TimelineReport = {
  schema: "skyline.timeline/1",
  step: 0,
  steps: 1,
  begin_ms: 0,
  end_ms: 80,
  measured: { title: "", duration_ms: 0, lanes: [] },
  simulated: {
    title: "ddp 8",
    duration_ms: 80,
    lanes: [
      { name: "compute", start_ms: [0, 20], end_ms: [20, 60], label: [0, 1], phase: [1, 2], place: [-1, -1], count: [1, 3] },
      { name: "communication", start_ms: [40], end_ms: [80], label: [2], phase: [4], place: [-1], count: [1] },
    ],
  },
  labels: ["forward 0", "backward 0", "reduce 0"],
  phases: ["data", "forward", "backward", "optimizer", "communication", "other"],
  places: [],
  reason: "",
};
