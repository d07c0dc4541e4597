// Made by `python -m skyline_lsp.typescript` from the types of the Python protocol. Not to be edited by hand.
/* eslint-disable */

/** The script or folder whose settings are asked for; null: the settings that hold for all. */
export interface ConfigParams {
  readonly uri?: string | null;
}

/** The settings in force with the origin of each (`skyline/config`), and the settings that could not be used. */
export interface ConfigResult {
  readonly settings: readonly SettingInForce[];
  readonly problems: readonly string[];
  readonly trusted: boolean;
}

/** One setting: its value and its origin; `place` is the file of the origin, empty if there is none. */
export interface SettingInForce {
  readonly key: string;
  readonly value: unknown;
  readonly origin: "command line" | "editor" | "pyproject" | "default";
  readonly place: string;
}

/** The script of a request (`skyline/profile`, `skyline/whatifs`, `skyline/revert` and others). */
export interface UriParams {
  readonly uri: string;
}

/** `skyline.profile/1`: the content of a profile, ready to show. */
export interface ProfileReport {
  readonly schema: string;
  readonly id: string;
  readonly created: string;
  readonly script: string;
  readonly arguments: readonly string[];
  readonly mode: "measured" | "predicted";
  readonly device: Device;
  readonly intraop_threads: number;
  readonly steps: readonly number[];
  readonly iteration_ms: Interval;
  readonly throughput: Interval | null;
  readonly batch_size: BatchSizeReport;
  readonly memory: MemoryReport;
  readonly phases: PhaseTimes;
  readonly lines: readonly LineCost[];
  readonly unattributed_share: number;
  readonly critical_path: CriticalPath;
  readonly replay_error: number;
  readonly overhead: number;
  readonly findings: readonly Finding[];
  readonly curve: readonly CurvePoint[];
  readonly loop: LoopReport | null;
  readonly notes: readonly string[];
  readonly module: string;
  readonly iteration: IterationFact | null;
  readonly warmup_iterations: number;
  readonly warmup_reason: string;
  readonly side_effects: readonly SideEffect[];
  readonly prediction: Prediction | null;
  readonly power: PowerFact | null;
  readonly protection: Protection | null;
  readonly load: MachineLoad | null;
  readonly machine_busy: boolean;
  readonly set_aside: boolean;
  readonly gpu_phases: PhaseTimes | null;
  readonly gpu_busy_share: number | null;
  readonly kernels: readonly LineKernel[];
  readonly latency: LatencyReport | null;
  readonly wall_time: WallTimeReport | null;
  readonly contents: BatchContentsReport | null;
}

/** The device that the script computes on. `kind` is `cpu` or `cuda`. */
export interface Device {
  readonly name: string;
  readonly kind: string;
  readonly host: string;
}

/** A value and the low and high ends of its uncertainty, all in the same unit. */
export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The batch size in force, and the place to change it or the reason why there is none. */
export interface BatchSizeReport {
  readonly value: number | null;
  readonly knob: KnobReport | null;
  readonly reason: string | null;
  readonly candidates: readonly KnobReport[];
  readonly lives: SettingPlace | null;
}

/** The literal in the source that sets the batch size; line from 1, columns in characters from 0. */
export interface KnobReport {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly end_column: number;
  readonly text: string;
  readonly kind: string;
  readonly cell: string;
}

/** One value in a file: `line` from 1, `key` with its sections (`train.batch_size`), `text` as written. */
export interface SettingPlace {
  readonly file: string;
  readonly line: number;
  readonly key: string;
  readonly text: string;
  readonly column: number;
}

/** The peak live tensor memory of an iteration, and the memory of the device. */
export interface MemoryReport {
  readonly peak_bytes: Interval;
  readonly capacity_bytes: number | null;
  readonly breakdown: MemoryBreakdown;
  readonly usable_bytes: number | null;
  readonly timeline: readonly MemoryPoint[];
  readonly at_peak: readonly PeakLine[];
  readonly device: DeviceMemoryFact | null;
}

/** The bytes at the peak by owner; the parts sum to the peak. */
export interface MemoryBreakdown {
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  readonly activations: number;
  readonly other: number;
}

/** The memory level from one moment of the iteration; the owners sum to `live_bytes`. */
export interface MemoryPoint {
  readonly time_ms: number;
  readonly live_bytes: number;
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  readonly activations: number;
  readonly other: number;
}

/** A line and the memory that it had allocated and that was live at the peak. */
export interface PeakLine {
  readonly file: string;
  readonly line: number;
  readonly source: string;
  readonly size_bytes: number;
  readonly cell: string;
}

/** GPU memory besides live tensors at the end of the recorded iterations, in bytes. */
export interface DeviceMemoryFact {
  readonly total_bytes: number;
  readonly free_bytes: number;
  readonly allocated_peak_bytes: number;
  readonly reserved_bytes: number;
  readonly context_bytes: number;
  readonly other_process_bytes: number;
}

/** Milliseconds per phase of one iteration; they sum to the iteration time. */
export interface PhaseTimes {
  readonly data: number;
  readonly forward: number;
  readonly backward: number;
  readonly optimizer: number;
  readonly communication: number;
  readonly other: number;
}

/** The cost of one line of the user's source per iteration. */
export interface LineCost {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly module: string;
  readonly source: string;
  readonly calls: number;
  readonly data_ms: number;
  readonly forward_ms: number;
  readonly backward_ms: number;
  readonly optimizer_ms: number;
  readonly other_ms: number;
  readonly self_ms: number;
  readonly share: number;
  readonly activation_bytes: number;
  readonly flops: number;
  readonly peak_bytes: number;
  readonly gpu_ms: number;
  readonly frequency: number;
  readonly parts: readonly LinePart[];
  readonly cell: string;
}

/** A part of a line's time per iteration. */
export interface LinePart {
  readonly module: string;
  readonly callee: string;
  readonly self_ms: number;
  readonly calls: number;
}

/** The shares of an iteration by what it waits for; they sum to 1. */
export interface CriticalPath {
  readonly cpu: number;
  readonly gpu_compute: number;
  readonly gpu_communication: number;
  readonly launch: number;
  readonly data: number;
  readonly idle: number;
}

/** A performance problem: its place, its cost per iteration and the what-if that removes it. */
export interface Finding {
  readonly code: string;
  readonly title: string;
  readonly file: string;
  readonly line: number;
  readonly cost_ms: number;
  readonly whatif: string | null;
  readonly evidence: readonly Evidence[];
  readonly cell: string;
}

/** One piece of evidence for a finding, in words, with its line (empty and 0: no particular line). */
export interface Evidence {
  readonly text: string;
  readonly file: string;
  readonly line: number;
  readonly cell: string;
}

/** Time and memory at one batch size; their low and high ends bound the band of the curve. */
export interface CurvePoint {
  readonly batch_size: number;
  readonly iteration_ms: Interval;
  readonly throughput: Interval;
  readonly peak_bytes: Interval;
  readonly measured: boolean;
  readonly extrapolated: boolean;
}

/** The statement that drives the training, where editors show the headline. */
export interface LoopReport {
  readonly file: string;
  readonly line: number;
  readonly cell: string;
}

/** The boundaries of a script's iteration, and its contents. */
export interface IterationFact {
  readonly meaning: string;
  readonly boundary: string;
  readonly optimizer_steps: number;
  readonly backward_passes: number;
  readonly batches: number;
  readonly styles: readonly string[];
  readonly rank: number;
  readonly world_size: number;
}

/** One kind of effect on one target. */
export interface SideEffect {
  readonly kind: string;
  readonly target: string;
  readonly outcome: string;
  readonly count: number;
  readonly line: CodeLine | null;
}

/** A line of the user's code; `function` is the qualified name of its function, if known. */
export interface CodeLine {
  readonly file: string;
  readonly line: number;
  readonly function: string;
}

/** The basis of a predicted profile. */
export interface Prediction {
  readonly gpu: string;
  readonly predictor: string;
  readonly basis: string;
  readonly iteration_ms: Interval;
  readonly unmeasured_share: number;
  readonly largest_batch: number | null;
  readonly largest_batch_traced: boolean;
  readonly larger_untried: boolean;
  readonly without_loading: string;
  readonly loading: string;
}

/** Energy of unrecorded iterations, including everything else that the counted hardware did meanwhile. */
export interface PowerFact {
  readonly source: "NVML" | "RAPL";
  readonly of: string;
  readonly joules: number;
  readonly mean_watts: number;
  readonly iterations: number;
  readonly window_s: number;
}

/** The mechanism that protected the user's files from the run's writes. */
export interface Protection {
  readonly state: "kernel" | "interception only" | "off";
  readonly reason: string;
  readonly network: "open" | "loopback";
}

/** Average numbers of busy cores during timing, of the script's processes and of all others, and the core count. */
export interface MachineLoad {
  readonly own_cores: number;
  readonly others_cores: number;
  readonly cores: number;
  readonly further_cores: number | null;
}

/** A kernel or copy of a line: its GPU time and its launches per iteration, summed over the phases. */
export interface LineKernel {
  readonly file: string;
  readonly line: number;
  readonly name: string;
  readonly gpu_ms: number;
  readonly calls: number;
}

/** Percentiles of the iterations of a script that does not train; each is a call of its model with its surroundings. */
export interface LatencyReport {
  readonly calls: number;
  readonly p50_ms: number;
  readonly p90_ms: number;
  readonly p99_ms: number | null;
}

/** The timed iterations of a script whose mean iteration is clearly longer than the typical one. */
export interface WallTimeReport {
  readonly iterations: number;
  readonly long_iterations: number;
  readonly mean_ms: number;
  readonly typical: number;
  readonly data: number;
  readonly passes: number;
  readonly other: number;
  readonly throughput: number | null;
  readonly rollouts: number;
  readonly evaluation: number;
  readonly checkpoints: number;
  readonly logging: number;
  readonly remark: string;
}

/** The batch holds `images`, or sequences of `tokens` with `per_sample` tokens each. */
export interface BatchContentsReport {
  readonly noun: "images" | "tokens";
  readonly per_sample: number;
}

/** `skyline.whatif/2`: every question asked, one by one and combined. */
export interface WhatIfReport {
  readonly schema: string;
  readonly baseline: BaselineReport;
  readonly estimates: readonly Estimate[];
  readonly combined: Estimate | null;
  readonly ledger: readonly TrackRecord[];
  readonly best: BestReport | null;
  readonly verdict: StepVerdict | null;
}

/** The unchanged script. */
export interface BaselineReport {
  readonly iteration_ms: Interval;
  readonly throughput: Interval | null;
  readonly peak_bytes: Interval | null;
  readonly replay_error: number;
  readonly gpu_busy: Readonly<Record<string, number>>;
  readonly bounded_by: CriticalPath | null;
}

/** The predicted effect of one what-if, or of a combination. */
export interface Estimate {
  readonly name: string;
  readonly value: string;
  readonly title: string;
  readonly iteration_ms: Interval;
  readonly change_ms: Interval;
  readonly throughput: Interval | null;
  readonly peak_bytes: Interval | null;
  readonly speedup: number;
  readonly applicable: boolean;
  readonly reason: string | null;
  readonly semantics: "exact" | "numerics" | "convergence" | "model";
  readonly provenance: "measured" | "interpolated" | "tried" | "modelled" | "assumed";
  readonly assumptions: readonly string[];
  readonly rewrite: "available" | "refused" | "none";
  readonly rewrite_reason: string | null;
  readonly batch_size: number | null;
  readonly extrapolated: boolean;
  readonly one_off_s: Interval | null;
  readonly break_even_iterations: number | null;
  readonly occasional_ms: number;
  readonly occasional_range_ms: Interval | null;
  readonly values: readonly string[];
  readonly speedup_range: Interval | null;
  readonly effect_range: Interval | null;
  readonly curve: readonly CurvePoint[] | null;
  readonly to_loss: TimeToLoss | null;
  readonly present: string | null;
  readonly removal: "available" | "refused" | "none";
  readonly removal_reason: string | null;
}

/** The training to the same loss at another batch size: an estimate from the noise of the gradients. */
export interface TimeToLoss {
  readonly samples_ratio: Interval;
  readonly time_ratio: Interval;
  readonly time_s: Interval | null;
  readonly now_s: Interval | null;
  readonly usd: Interval | null;
  readonly basis: string;
}

/** Accuracy of predictions for a what-if or a combination, on one machine and version of PyTorch. */
export interface TrackRecord {
  readonly whatif: string;
  readonly cases: number;
  readonly scripts: number;
  readonly median_error: number;
  readonly within: number;
  readonly inside: number;
  readonly held: number;
  readonly discarded: number;
  readonly correction: Correction | null;
}

/** The typical ratio of measured to predicted iteration time; displayed with a prediction, never applied to it. */
export interface Correction {
  readonly factor: number;
  readonly low: number;
  readonly high: number;
}

/** The best combination that was found: `choices` as they are typed, null with a reason if there is none. */
export interface BestReport {
  readonly choices: readonly string[];
  readonly estimate: Estimate | null;
  readonly parts: readonly Estimate[];
  readonly tried: number;
  readonly memory_bytes: number | null;
  readonly semantics: "exact" | "numerics" | "convergence" | "model";
  readonly reason: string | null;
  readonly left_out: readonly string[];
}

/** The verdict, which the user reads first. */
export interface StepVerdict {
  readonly bound: string;
  readonly advice: string;
  readonly choice: string | null;
  readonly rewritten: boolean;
  readonly file: string;
  readonly line: number;
  readonly obstacle: string;
  readonly caution: string;
  readonly cell: string;
}

/** A batch size (null: unchanged) and what-ifs as `NAME` or `NAME=VALUE`. */
export interface QuestionParams {
  readonly uri: string;
  readonly batchSize?: number | null;
  readonly whatifs?: readonly string[];
  readonly curve?: boolean;
}

/** The limits of the best combination (`skyline/best`, answered with a `BestReport`). */
export interface BestParams {
  readonly uri: string;
  readonly maxMemoryBytes?: number | null;
  readonly semantics?: "exact" | "numerics" | "convergence" | "model";
  readonly rewritable?: boolean;
}

/** The edits that `skyline/apply` would make, also as a unified diff. */
export interface PreviewResult {
  readonly edits: readonly PreviewEdit[];
  readonly diff: string;
  readonly refused: readonly Refusal[];
}

/** One replacement: line from 0, columns in UTF-16 code units, as in the standard protocol. */
export interface PreviewEdit {
  readonly uri: string;
  readonly startLine: number;
  readonly startColumn: number;
  readonly endLine: number;
  readonly endColumn: number;
  readonly newText: string;
}

/** A part of the question that is not rewritten, and the reason; `snippet` is code to write by hand, if any. */
export interface Refusal {
  readonly name: string;
  readonly reason: string;
  readonly snippet: string;
}

/** `applied` is true if the client accepted the edit; else `reason` says why not. */
export interface ApplyResult {
  readonly applied: boolean;
  readonly reason: string | null;
  readonly refused: readonly Refusal[];
}

/** A what-if to remove from the code, by its name (`skyline/remove`, answered with an `ApplyResult`). */
export interface RemoveParams {
  readonly uri: string;
  readonly whatif: string;
}

/** The difference between the code and the profiled code. */
export interface CodeChanges {
  readonly uri: string;
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
  readonly removed: readonly string[];
  readonly changes: readonly CodeChange[];
  readonly verify: Verifiable | null;
}

/** A change that Skyline wrote into the code and that is still there; `measured`: the profile has it too. */
export interface CodeChange {
  readonly label: string;
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
  readonly removes: readonly string[];
  readonly measured: boolean;
}

/** The question that a verification would measure, over a profile, in the form of `VerifyParams`. */
export interface Verifiable {
  readonly profileId: string;
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
  readonly removes: readonly string[];
}

/** A file without the changes that Skyline wrote into it (`skyline/original` answers with all such files). */
export interface OriginalText {
  readonly uri: string;
  readonly text: string;
}

/** A question as in `QuestionParams`, and how long to measure: `rounds` (6 at least), `minutes` at most. */
export interface VerifyParams {
  readonly uri: string;
  readonly batchSize?: number | null;
  readonly whatifs?: readonly string[];
  readonly removes?: readonly string[];
  readonly rounds?: number | null;
  readonly minutes?: number | null;
  readonly profileId?: string | null;
}

/** A prediction compared with its measurement. */
export interface VerifyReport {
  readonly schema: string;
  readonly script: string;
  readonly whatifs: readonly string[];
  readonly baseline: BaselineReport | null;
  readonly predicted: Estimate | null;
  readonly measured: MeasuredReport;
  readonly error: number | null;
  readonly held: boolean | null;
  readonly null_ratio: number;
  readonly valid: boolean;
  readonly reason: string | null;
  readonly hint: string | null;
  readonly notes: readonly string[];
  readonly diff: string;
  readonly entry: string | null;
  readonly against: string;
}

/** The measurements of a verification; times relate to the profile of the prediction. */
export interface MeasuredReport {
  readonly iteration_ms: Interval;
  readonly ratio: Interval;
  readonly speedup: Interval;
  readonly throughput: Interval | null;
  readonly null: Interval;
  readonly rounds: number;
  readonly baseline_ms: number;
  readonly others_cores: number;
  readonly baseline_peak_bytes: number | null;
  readonly peak_bytes: number | null;
}

/** GPUs to predict a script on (none: the usual ones and the person's own); they may be anywhere. */
export interface DevicesParams {
  readonly uri: string;
  readonly gpus?: readonly string[];
  readonly provider?: string;
  readonly gridGPerKwh?: number | null;
}

/** `skyline.devices/1`. All costs are for `span`. */
export interface DevicesReport {
  readonly schema: string;
  readonly created: string;
  readonly script: string;
  readonly arguments: readonly string[];
  readonly predictor: string;
  readonly batch_size: number | null;
  readonly span: Span;
  readonly grid_g_per_kwh: number;
  readonly traced_for_each: readonly string[];
  readonly answer: string;
  readonly devices: readonly DeviceReport[];
  readonly assumptions: readonly string[];
  readonly notes: readonly string[];
  readonly module: string;
}

/** The amount of work of a cost figure: a number of samples, or of iterations if samples are not observable. */
export interface Span {
  readonly epoch: boolean;
  readonly samples: number | null;
  readonly iterations: number;
}

/** One GPU, with bytes, ms, and a `GpuRunCost`. `as_is` is the unchanged script, even if it is too large. */
export interface DeviceReport {
  readonly gpu: string;
  readonly full_name: string;
  readonly own: boolean;
  readonly memory_bytes: number;
  readonly usable_bytes: number;
  readonly fits: string;
  readonly largest_batch: LargestBatchReport;
  readonly as_is: GpuRunCost;
  readonly fullest: GpuRunCost | null;
  readonly prices: readonly PriceReport[];
  readonly power_limit_watts: number;
  readonly basis: string;
  readonly unmeasured_share: number;
}

/** The largest batch size that fits: `traced` at that size, or extrapolated; `reason` if unknown. */
export interface LargestBatchReport {
  readonly size: number | null;
  readonly traced: boolean;
  readonly larger_untried: boolean;
  readonly reason: string;
}

/** One batch size on one GPU. `time_s` to `carbon_g` are for a span of `iterations`. */
export interface GpuRunCost {
  readonly batch_size: number | null;
  readonly iteration_ms: Interval;
  readonly throughput: Interval | null;
  readonly peak_bytes: number;
  readonly busy_share: number;
  readonly power_watts: Interval;
  readonly iterations: number;
  readonly time_s: Interval;
  readonly cost_usd: Interval | null;
  readonly energy_kwh: Interval;
  readonly carbon_g: Interval;
}

/** The price of an hour: `usd_per_hour` for an instance, `usd_per_gpu_hour` for each of its GPUs. */
export interface PriceReport {
  readonly provider: string;
  readonly instance: string;
  readonly region: string;
  readonly gpus: number;
  readonly usd_per_hour: number;
  readonly usd_per_gpu_hour: number;
  readonly date: string;
  readonly source: string;
  readonly own: boolean;
}

/** The scripts that profile a file (`skyline/entryScripts`). `itself`: the file runs. */
export interface EntryScripts {
  readonly itself: boolean;
  readonly scripts: readonly string[];
}

/** The kind of a file opened by `skyline/open`: a saved profile, or a PyTorch profiler trace. */
export interface OpenResult {
  readonly kind: "profile" | "trace";
  readonly script: string;
}

/** A question as in `QuestionParams`, and the part of its timeline to show (`skyline/timeline`). */
export interface TimelineParams {
  readonly uri: string;
  readonly batchSize?: number | null;
  readonly whatifs?: readonly string[];
  readonly step?: number | null;
  readonly beginMs?: number | null;
  readonly endMs?: number | null;
  readonly most?: number;
}

/** `skyline.timeline/1`: iteration `step` of `steps`, between two times. */
export interface TimelineReport {
  readonly schema: string;
  readonly step: number;
  readonly steps: number;
  readonly begin_ms: number;
  readonly end_ms: number;
  readonly measured: TimelineSide;
  readonly simulated: TimelineSide;
  readonly labels: readonly string[];
  readonly phases: readonly string[];
  readonly places: readonly TimelinePlace[];
  readonly reason: string;
}

/** The iteration as measured or as simulated; `duration_ms` is its duration. */
export interface TimelineSide {
  readonly title: string;
  readonly duration_ms: number;
  readonly lanes: readonly LaneReport[];
}

/** The work of one lane in order, as columns of one length; times in ms from the start of the iteration. */
export interface LaneReport {
  readonly name: string;
  readonly start_ms: readonly number[];
  readonly end_ms: readonly number[];
  readonly label: readonly number[];
  readonly phase: readonly number[];
  readonly place: readonly number[];
  readonly count: readonly number[];
}

/** A line of the person's code. */
export interface TimelinePlace {
  readonly file: string;
  readonly line: number;
}

/** A moment of the iteration, in ms (`skyline/memoryAt`, answered with a `LiveMemoryReport`). */
export interface MemoryAtParams {
  readonly uri: string;
  readonly timeMs: number;
}

/** `skyline.memory/1`: `older_bytes` are from before the iteration, the rest is in `lines`, largest first. */
export interface LiveMemoryReport {
  readonly schema: string;
  readonly time_ms: number;
  readonly live_bytes: number;
  readonly older_bytes: number;
  readonly lines: readonly LiveLine[];
  readonly other_bytes: number;
}

/** Bytes in `blocks` blocks that a line allocated and that are still held, by phase of allocation. */
export interface LiveLine {
  readonly file: string;
  readonly line: number;
  readonly source: string;
  readonly phase: string;
  readonly size_bytes: number;
  readonly blocks: number;
  readonly held_ms: number;
}

/** One saved profile; times are medians in ms, memory is bytes. */
export interface SavedProfile {
  readonly id: string;
  readonly path: string;
  readonly created: string;
  readonly mode: string;
  readonly device: string;
  readonly batch_size: number | null;
  readonly iteration_ms: number;
  readonly peak_bytes: number;
}

/** `skyline.history/1`: states of a script, oldest first. `others` counts profiles with other settings. */
export interface HistoryReport {
  readonly schema: string;
  readonly script: string;
  readonly arguments: readonly string[];
  readonly mode: string;
  readonly device: string;
  readonly torch: string;
  readonly states: readonly StateReport[];
  readonly others: number;
  readonly slower_at: readonly string[];
}

/** The profiles of one state of the sources. `change` is None for the first state. */
export interface StateReport {
  readonly profiles: readonly string[];
  readonly created: string;
  readonly commit: string;
  readonly committed: string;
  readonly subject: string;
  readonly changed: boolean;
  readonly batch_size: number | null;
  readonly iteration_ms: Interval;
  readonly per_sample_ms: number;
  readonly peak_bytes: number;
  readonly change: number | null;
  readonly verdict: string;
  readonly peak_change: number | null;
  readonly grown: readonly GrownLine[];
  readonly busy: boolean;
}

/** A line whose time per iteration grew; `before_ms` is None for a new line. */
export interface GrownLine {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  readonly before_ms: number | null;
  readonly after_ms: number;
}

/** Two saved profiles of a script by their ids; `after` null: the latest (`skyline/compare`). */
export interface CompareParams {
  readonly uri: string;
  readonly before: string;
  readonly after?: string | null;
}

/** Two profiles of a script compared, and the changes of its source as a unified diff. */
export interface ComparisonReport {
  readonly profiles: DiffReport;
  readonly source: string;
}

/** `skyline.diff/1`. Changes are after minus before. */
export interface DiffReport {
  readonly schema: string;
  readonly before: SideReport;
  readonly after: SideReport;
  readonly change_ms: number;
  readonly change: number;
  readonly noise: number;
  readonly verdict: "faster" | "slower" | "within noise";
  readonly per_sample: boolean;
  readonly peak_change_bytes: number;
  readonly phases: readonly PhaseChange[];
  readonly lines: readonly LineChange[];
  readonly notes: readonly string[];
}

/** One of the two profiles. */
export interface SideReport {
  readonly id: string;
  readonly created: string;
  readonly script: string;
  readonly iteration_ms: Interval;
  readonly throughput: Interval | null;
  readonly peak_bytes: Interval;
  readonly batch_size: number | null;
}

/** A phase before and after, in ms per iteration. */
export interface PhaseChange {
  readonly phase: string;
  readonly before_ms: number;
  readonly after_ms: number;
}

/** A line before and after; 0 on a side without the line. */
export interface LineChange {
  readonly file: string;
  readonly line_before: number;
  readonly line_after: number;
  readonly function: string;
  readonly source: string;
  readonly before_ms: number;
  readonly after_ms: number;
}

/** The clusters and transformers to plan for: those of Skyline, and descriptions in the script's folder. */
export interface PlanChoices {
  readonly clusters: readonly ClusterReport[];
  readonly models: readonly string[];
}

/** A described cluster. Rates in GB/s in one direction: `inside` of a GPU, `between` of a node's network. */
export interface ClusterReport {
  readonly name: string;
  readonly gpu: string;
  readonly nodes: number;
  readonly gpus_per_node: number;
  readonly inside_gb_s: number;
  readonly between_gb_s: number;
  readonly usd_per_node_hour: number | null;
  readonly source: string;
}

/** The training of a script, or of a described transformer, on a cluster (`skyline/plan`). */
export interface PlanParams {
  readonly uri: string;
  readonly cluster: string;
  readonly model?: string;
  readonly gpus?: string;
  readonly amount?: string;
  readonly budget?: string;
  readonly deadline?: string;
  readonly globalBatch?: number | null;
  readonly precision?: "amp_bf16" | "bf16" | "float8" | "amp_fp16" | "fp32";
  readonly compiled?: boolean;
  readonly rows?: number;
}

/** `skyline.plan/1`: a ranked table of strategies. `provenance` holds for every figure. */
export interface PlanReport {
  readonly schema: string;
  readonly provenance: string;
  readonly model: string;
  readonly unit: string;
  readonly cluster: string;
  readonly gpu: string;
  readonly source: string;
  readonly considered: number;
  readonly fitting: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly too_large: readonly TooLargeRow[];
  readonly advice: string;
  readonly rows: readonly PlanRow[];
}

/** The strategy with the least memory for a layout that does not fit. */
export interface TooLargeRow {
  readonly label: string;
  readonly gpus: number;
  readonly memory_bytes: number;
  readonly usable_bytes: number;
}

/** One strategy on one size of the cluster. Times in ms, memory in bytes. */
export interface PlanRow {
  readonly rank: number;
  readonly label: string;
  readonly gpus: number;
  readonly strategy: Strategy;
  readonly step_ms: Interval;
  readonly units_per_s: Interval;
  readonly mfu: number;
  readonly memory_bytes: Interval;
  readonly memory_parts: Readonly<Record<string, number>>;
  readonly step_parts_ms: Readonly<Record<string, number>>;
  readonly limit: string;
  readonly slower_than_best: number;
  readonly hours: Interval | null;
  readonly usd: Interval | null;
  readonly objection: string;
  readonly why: string;
  readonly whatifs: readonly string[];
  readonly stage_memory_bytes: readonly number[];
  readonly stage_layers: readonly string[];
}

/** Sizes of the kinds of parallelism, whose product is the number of ranks. */
export interface Strategy {
  readonly data: number;
  readonly sharding: "ddp" | "zero1" | "zero2" | "fsdp";
  readonly tensor: number;
  readonly pipeline: number;
  readonly context: number;
  readonly expert: number;
  readonly micro_batch: number;
  readonly accumulation: number;
  readonly schedule: "gpipe" | "1f1b" | "interleaved" | "zero-bubble" | "async";
  readonly chunks: number;
  readonly recompute: "none" | "selective" | "full";
  readonly precision: "amp_bf16" | "bf16" | "float8" | "amp_fp16" | "fp32";
  readonly offload: boolean;
  readonly compiled: boolean;
  readonly async_tensor: boolean;
  readonly sent: number;
  readonly stage_blocks: readonly number[];
  readonly stage_recomputed: readonly number[];
}

/** A row of a plan by its number, and the part of its timeline to show, as in `TimelineParams`. */
export interface PlanTimelineParams {
  readonly plan: PlanParams;
  readonly row: number;
  readonly beginMs?: number | null;
  readonly endMs?: number | null;
  readonly most?: number;
}

/** A row of a plan by its number, and the file for its timeline, which ui.perfetto.dev opens. */
export interface PlanExportParams {
  readonly plan: PlanParams;
  readonly row: number;
  readonly path: string;
}

/** The outcome of a command. */
export interface CommandResult {
  readonly status: "started" | "running" | "restarted" | "cancelled" | "idle" | "shown" | "written" | "cleared";
  readonly path: string | null;
  readonly script: string | null;
}

/** A run of `skyline watch` by the name of its file; null: the latest (`skyline/watched`). */
export interface WatchedParams {
  readonly uri: string;
  readonly name?: string | null;
}

/** A run of `skyline watch`. */
export interface WatchReport {
  readonly name: string;
  readonly command: readonly string[];
  readonly started: string;
  readonly state: "running" | "silent" | "ended";
  readonly exit_code: number | null;
  readonly duration_s: number;
  readonly ranks: number;
  readonly points: readonly WatchPoint[];
  readonly alerts: readonly WatchAlert[];
  readonly messages: readonly string[];
  readonly watching_share: number | null;
  readonly logged: LoggedTraining | null;
  readonly names: readonly string[];
}

/** The run at a moment. Shares are relative to the iteration; `loss` is null if it is unknown or no number. */
export interface WatchPoint {
  readonly at_s: number;
  readonly iteration: number;
  readonly iteration_ms: number;
  readonly wait_share: number;
  readonly forward_share: number;
  readonly loss: number | null;
  readonly memory_bytes: number | null;
}

/** A rule that held. `over_iteration` is its end, null while it holds. `line` 0: no line is known. */
export interface WatchAlert {
  readonly rule: string;
  readonly rank: number;
  readonly at_s: number;
  readonly iteration: number;
  readonly title: string;
  readonly evidence: readonly string[];
  readonly file: string;
  readonly line: number;
  readonly over_iteration: number | null;
}

/** The state of a training according to its own log. */
export interface LoggedTraining {
  readonly benchmark: string;
  readonly batch_size: number | null;
  readonly epoch_samples: number | null;
  readonly epoch: number | null;
  readonly samples: number | null;
  readonly metric: string;
  readonly quality: number | null;
  readonly target: number | null;
  readonly status: string;
  readonly seconds: number | null;
  readonly began_s: number | null;
}

/** A search for the fastest combination by measured trials (`skyline/tune`: a `TuneReport`). */
export interface TuneParams {
  readonly uri: string;
  readonly budgetSeconds?: number;
  readonly allow?: "exact" | "numerics" | "convergence" | "model";
  readonly maxMemoryBytes?: number | null;
  readonly resume?: boolean;
}

/** The whole search. */
export interface TuneReport {
  readonly schema: string;
  readonly script: string;
  readonly allowed: string;
  readonly outcome: string;
  readonly budget_s: number;
  readonly spent_s: number;
  readonly trial_s: number;
  readonly ended: string;
  readonly trials: readonly TuneTrial[];
  readonly best: TuneTrial | null;
  readonly verified: TuneTrial | null;
  readonly semantics: string;
  readonly command: string;
  readonly diff: string;
  readonly suggested: readonly string[];
  readonly suggested_speedup: Interval | null;
  readonly left_out: readonly string[];
  readonly notes: readonly string[];
}

/** A combination, its simulated speed-up, and the outcome of its trial. */
export interface TuneTrial {
  readonly changes: readonly string[];
  readonly predicted: Interval;
  readonly speedup: Interval | null;
  readonly null: number;
  readonly peak_bytes: number | null;
  readonly took_s: number;
  readonly dropped: boolean;
  readonly reason: string | null;
  readonly worker: string | null;
}

/** A search in progress, or the trials of the last one (`skyline/tuning`, `skyline/tuned`). */
export interface TuneProgress {
  readonly uri: string;
  readonly running: boolean;
  readonly doing: string;
  readonly budget_s: number;
  readonly spent_s: number;
  readonly trials: readonly TuneTrial[];
  readonly best: number | null;
}

/** The second argument of `skyline.profile`. None: as in the settings. */
export interface ProfileOptions {
  readonly args?: readonly string[] | null;
  readonly steps?: number | null;
  readonly warmup?: number | null;
  readonly timeoutS?: number | null;
  readonly batchPoints?: number | null;
  readonly device?: string | null;
  readonly gpu?: string | null;
  readonly env?: Readonly<Record<string, string>> | null;
  readonly cwd?: string | null;
  readonly module?: string | null;
  readonly launcher?: readonly string[] | null;
}

/** Options of `skyline.export`. `path` is relative to the script's folder; its default is the script's name. */
export interface ExportOptions {
  readonly format?: "html" | "json" | "perfetto" | "speedscope";
  readonly path?: string | null;
}

/** The second argument of `skyline.whatIf` and `skyline.applyRewrite`: a question about the script. */
export interface QuestionOptions {
  readonly batchSize?: number | null;
  readonly whatifs?: readonly string[];
}

/** The second argument of `skyline.verify`: a question, and how long to measure, as in `VerifyParams`. */
export interface VerifyOptions {
  readonly batchSize?: number | null;
  readonly whatifs?: readonly string[];
  readonly rounds?: number | null;
  readonly minutes?: number | null;
}

/** A script has a new profile, its profile became stale, or profiling failed (`error`). */
export interface ProfileChanged {
  readonly uri: string;
  readonly profileId: string | null;
  readonly headline: string;
  readonly stale: boolean;
  readonly error: string | null;
  readonly errorLine: number | null;
  readonly usage: string | null;
}

/** The first figures of a current run, before its profile exists; `text` states them in words. */
export interface Measuring {
  readonly uri: string;
  readonly text: string;
  readonly batchSize: number | null;
  readonly iterationMs: Interval | null;
  readonly throughput: Interval | null;
  readonly scriptSeconds: number | null;
}

/** The person now trusts the workspace, or no longer does (`skyline/trust`, to the server). */
export interface TrustParams {
  readonly trusted: boolean;
}

/** `initializationOptions` in addition to the settings, in camelCase as on the wire. */
export interface InitializationOptions {
  readonly trusted?: boolean;
  readonly warmStart?: boolean;
  readonly followDisk?: boolean;
  readonly scripts?: Readonly<Record<string, ProfileOptions>>;
}

export type LineReport = LineCost;

export type KernelReport = LineKernel;

export type CriticalPathReport = CriticalPath;

export type FindingReport = Finding;

export type CurvePointReport = CurvePoint;

export type EstimateReport = Estimate;

export type TrackRecordReport = TrackRecord;

export type VerdictReport = StepVerdict;

/** Requests of the client: what goes along and what comes back. */
export interface SkylineRequests {
  "skyline/config": { readonly sent: ConfigParams; readonly answer: ConfigResult };
  "skyline/profile": { readonly sent: UriParams; readonly answer: ProfileReport | null };
  "skyline/whatifs": { readonly sent: UriParams; readonly answer: WhatIfReport | null };
  "skyline/simulate": { readonly sent: QuestionParams; readonly answer: Estimate };
  "skyline/best": { readonly sent: BestParams; readonly answer: BestReport };
  "skyline/preview": { readonly sent: QuestionParams; readonly answer: PreviewResult };
  "skyline/apply": { readonly sent: QuestionParams; readonly answer: ApplyResult };
  "skyline/remove": { readonly sent: RemoveParams; readonly answer: ApplyResult };
  "skyline/revert": { readonly sent: UriParams; readonly answer: ApplyResult };
  "skyline/codeChanges": { readonly sent: UriParams; readonly answer: CodeChanges | null };
  "skyline/original": { readonly sent: UriParams; readonly answer: readonly OriginalText[] };
  "skyline/verify": { readonly sent: VerifyParams; readonly answer: VerifyReport };
  "skyline/devices": { readonly sent: DevicesParams; readonly answer: DevicesReport };
  "skyline/entryScripts": { readonly sent: UriParams; readonly answer: EntryScripts };
  "skyline/open": { readonly sent: UriParams; readonly answer: OpenResult };
  "skyline/timeline": { readonly sent: TimelineParams; readonly answer: TimelineReport };
  "skyline/memoryAt": { readonly sent: MemoryAtParams; readonly answer: LiveMemoryReport };
  "skyline/history": { readonly sent: UriParams; readonly answer: readonly SavedProfile[] };
  "skyline/commits": { readonly sent: UriParams; readonly answer: HistoryReport | null };
  "skyline/compare": { readonly sent: CompareParams; readonly answer: ComparisonReport };
  "skyline/planChoices": { readonly sent: UriParams; readonly answer: PlanChoices };
  "skyline/plan": { readonly sent: PlanParams; readonly answer: PlanReport };
  "skyline/planTimeline": { readonly sent: PlanTimelineParams; readonly answer: TimelineReport };
  "skyline/planExport": { readonly sent: PlanExportParams; readonly answer: CommandResult };
  "skyline/watched": { readonly sent: WatchedParams; readonly answer: WatchReport | null };
  "skyline/tune": { readonly sent: TuneParams; readonly answer: TuneReport };
  "skyline/tuned": { readonly sent: UriParams; readonly answer: TuneProgress | null };
}

/** Commands by `workspace/executeCommand`: the second argument and what comes back. */
export interface SkylineCommands {
  "skyline.profile": { readonly sent: ProfileOptions; readonly answer: CommandResult };
  "skyline.cancel": { readonly sent: undefined; readonly answer: CommandResult };
  "skyline.clear": { readonly sent: undefined; readonly answer: CommandResult };
  "skyline.useLater": { readonly sent: undefined; readonly answer: CommandResult };
  "skyline.showReport": { readonly sent: undefined; readonly answer: CommandResult };
  "skyline.export": { readonly sent: ExportOptions; readonly answer: CommandResult };
  "skyline.whatIf": { readonly sent: QuestionOptions; readonly answer: Estimate };
  "skyline.applyRewrite": { readonly sent: QuestionOptions; readonly answer: ApplyResult };
  "skyline.revert": { readonly sent: undefined; readonly answer: ApplyResult };
  "skyline.verify": { readonly sent: VerifyOptions; readonly answer: VerifyReport };
}

/** Notifications to the client. */
export interface SkylineEvents {
  "skyline/profileChanged": ProfileChanged;
  "skyline/measuring": Measuring;
  "skyline/codeChanged": CodeChanges;
  "skyline/tuning": TuneProgress;
}

/** Notifications to the server. */
export interface SkylineNotifications {
  "skyline/trust": TrustParams;
}

/** The names of all of them. */
export const METHODS = {
  profileChanged: "skyline/profileChanged",
  measuring: "skyline/measuring",
  trust: "skyline/trust",
  config: "skyline/config",
  profile: "skyline/profile",
  whatifs: "skyline/whatifs",
  simulate: "skyline/simulate",
  best: "skyline/best",
  preview: "skyline/preview",
  apply: "skyline/apply",
  remove: "skyline/remove",
  revert: "skyline/revert",
  codeChanges: "skyline/codeChanges",
  codeChanged: "skyline/codeChanged",
  original: "skyline/original",
  verify: "skyline/verify",
  devices: "skyline/devices",
  entryScripts: "skyline/entryScripts",
  open: "skyline/open",
  timeline: "skyline/timeline",
  memoryAt: "skyline/memoryAt",
  history: "skyline/history",
  commits: "skyline/commits",
  compare: "skyline/compare",
  planChoices: "skyline/planChoices",
  plan: "skyline/plan",
  planTimeline: "skyline/planTimeline",
  planExport: "skyline/planExport",
  watched: "skyline/watched",
  tune: "skyline/tune",
  tuned: "skyline/tuned",
  tuning: "skyline/tuning",
  commandProfile: "skyline.profile",
  commandCancel: "skyline.cancel",
  commandClear: "skyline.clear",
  commandUseLater: "skyline.useLater",
  commandShowReport: "skyline.showReport",
  commandExport: "skyline.export",
  commandWhatIf: "skyline.whatIf",
  commandApplyRewrite: "skyline.applyRewrite",
  commandRevert: "skyline.revert",
  commandVerify: "skyline.verify",
} as const;
