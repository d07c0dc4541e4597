// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { BestReport, DevicesReport, EstimateReport, Interval, VerifyReport } from "../../src/protocol";
import { recorded } from "../recorded";
import { best, devices, verified } from "../../webview/results";

const { whatifs } = recorded("argparse");
const [estimate] = whatifs.estimates.filter(({ applicable }) => applicable);
if (!estimate) throw new Error("no what-if was recorded");
const predicted: EstimateReport = estimate;
const gain = (value: number, low: number, high: number): Interval => ({ value, low, high });
const colour = (element: HTMLElement): string => element.className.replace("verified", "").trim();

function verification(speedup: Interval, news: Partial<VerifyReport> = {}): VerifyReport {
  const iteration_ms = gain(8, 7.9, 8.1);
  return {
    schema: "skyline.verify/2",
    script: "/home/ada/project/train.py",
    whatifs: [predicted.name],
    baseline: whatifs.baseline,
    predicted: { ...predicted, iteration_ms: gain(9, 8.5, 9.5), occasional_ms: 1 },
    measured: { iteration_ms, ratio: gain(0.8, 0.79, 0.81), speedup, throughput: null, null: gain(1, 0.99, 1.01), rounds: 8, baseline_ms: 10, others_cores: 0, baseline_peak_bytes: null, peak_bytes: null },
    error: 0.1,
    held: true,
    null_ratio: 1,
    valid: true,
    reason: null,
    hint: null,
    notes: [],
    diff: "",
    entry: "12ab",
    against: "",
    ...news,
  };
}

describe("a verification", () => {
  it.each([
    ["a gain whose range excludes zero", gain(1.25, 1.2, 1.3), true, "better"],
    ["a gain whose range includes zero", gain(1.25, 0.95, 1.5), true, ""],
    ["a loss, although the prediction held", gain(0.8, 0.7, 0.9), true, "worse"],
    ["a gain that is shown as 0 %", gain(1.0003, 1.0001, 1.0005), true, ""],
    ["a gain that was not predicted", gain(1.25, 1.2, 1.3), null, "better"],
    ["no gain, and no prediction", gain(1, 0.9, 1.1), null, ""],
  ] as const)("is coloured by %s", (_, speedup, held, expected) => {
    expect(colour(verified(verification(speedup, { held })))).toBe(expected);
  });

  it("shows the range of the gain, and the prediction with the measurement", () => {
    const { textContent } = verified(verification(gain(1.25, 1.2, 1.3)));
    expect(textContent).toBe("Verified: +25 % (+20 % to +30 %) samples/s. Predicted → measured 8.00 → 8.00 ms ±0.10 per iteration, prediction 10 % too long (within its interval), 8 rounds.".replace("8.00 → 8.00", "as now: 8.00"));
    expect(verified(verification(gain(1.25, 1.2, 1.3), { held: false })).textContent).toContain("outside its interval");
  });

  it("of a removal has no prediction", () => {
    const removal = verified(verification(gain(0.8, 0.7, 0.9), { predicted: null, error: null, held: null, whatifs: ["without amp"] }));
    expect(removal.textContent).toMatch(/^Verified: -20 % \(-30 % to -10 %\) samples\/s\. Measured .*8\.\d+ ms.* without a prediction, 8 rounds\.$/);
    expect(colour(removal)).toBe("worse");
  });

  it("that is not valid shows the reason, and no gain in colour", () => {
    const invalid = verified(verification(gain(1.25, 1.2, 1.3), { valid: false, reason: "noisy: other programs kept 1.9 of 2 cores busy", hint: "Close other programs" }));
    expect(invalid.textContent).toBe("The measurement is not valid: noisy: other programs kept 1.9 of 2 cores busy. Close other programs. It showed +25 % (+20 % to +30 %) samples/s.");
    expect(colour(invalid)).toBe("worse");
  });

  it("from a baseline within noise has a note and is not green", () => {
    const baseline = { ...whatifs.baseline, iteration_ms: gain(0.2, 0.05, 0.35) };
    const huge = verified(verification(gain(72, 60, 80), { baseline }));
    expect(huge.textContent).toContain("72× (60× to 80×) samples/s");
    expect(huge.textContent).toContain("from a baseline within noise, 0.20 ms ±0.15");
    expect(colour(huge)).toBe("");
  });
});

describe("other GPUs", () => {
  const on = (gpu: string, rate: number, cost: number | null): DevicesReport["devices"][number] => {
    const as_is = { batch_size: 64, iteration_ms: gain(64e3 / rate, 60e3 / rate, 70e3 / rate), throughput: gain(rate, 0.9 * rate, 1.1 * rate), peak_bytes: 1e9, busy_share: 0.9, power_watts: gain(300, 250, 350), iterations: 1024, time_s: gain(10, 9, 11), cost_usd: cost === null ? null : gain(cost, 0.9 * cost, 1.1 * cost), energy_kwh: gain(1, 0.9, 1.1), carbon_g: gain(1, 0.9, 1.1) };
    return { gpu, full_name: `NVIDIA ${gpu}`, own: false, memory_bytes: 80e9, usable_bytes: 76e9, fits: "fits", largest_batch: { size: 512, traced: true, larger_untried: false, reason: "" }, as_is, fullest: null, prices: [], power_limit_watts: 700, basis: "", unmeasured_share: 0 };
  };
  const report: DevicesReport = { schema: "skyline.devices/1", created: "2026-05-04T10:00:00+00:00", script: "/p/train.py", arguments: [], predictor: "", batch_size: 64, span: { epoch: true, samples: 65536, iterations: 1024 }, grid_g_per_kwh: 400, traced_for_each: [], answer: "Fastest is the H100.", devices: [on("L4", 1000, 0.0123), on("H100", 9000, null), on("T4", 500, 12)], assumptions: [], notes: [], module: "" };

  it("begin with the answer, then the fastest with its cost", () => {
    const [answer, table, caption] = devices(report, false, true, () => undefined);
    expect(answer?.textContent).toBe("Fastest is the H100.");
    const rows = [...(table?.querySelectorAll("tr") ?? [])].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(rows.map(([gpu, , cost, batch]) => [gpu, cost, batch])).toEqual([["GPU", "epoch", "batch ≤"], ["H100", "?", "512"], ["L4", "$0.012", "512"], ["T4", "$12.00", "512"]]);
    expect(caption?.textContent).toBe("predicted, not measured; an epoch at the cheapest list price");
  });
});

describe("the best combination", () => {
  const report = (news: Partial<EstimateReport>): BestReport => ({ choices: ["batch_size=64"], estimate: { ...predicted, extrapolated: false, speedup: 1.25, ...news }, parts: [], tried: 8, memory_bytes: null, semantics: "convergence", reason: null, left_out: [] });
  const shown = (news: Partial<EstimateReport>, baseline = whatifs.baseline): HTMLElement => best(report(news), baseline, () => undefined);

  it.each([
    ["a range that excludes zero", { speedup_range: gain(1.25, 1.2, 1.3) }, "better"],
    ["a range that includes zero", { speedup_range: gain(1.25, 0.9, 1.3) }, ""],
    ["no range at all", { speedup_range: null }, ""],
    ["an extrapolation", { speedup_range: gain(1.25, 1.2, 1.3), extrapolated: true }, ""],
  ])("is coloured by %s", (_, news, expected) => expect(colour(shown(news))).toBe(expected));

  it("shows its range if it has one", () => {
    expect(shown({ speedup_range: gain(1.25, 1.2, 1.3) }).textContent).toContain("batch_size=64: +25 % (+20 % to +30 %) samples/s, the best of 8");
    expect(shown({ speedup_range: null }).textContent).toContain("batch_size=64: +25 % samples/s, the best of 8");
  });

  it("offers no change if the code is already the best combination", () => {
    const found = best({ ...report({}), choices: [] }, whatifs.baseline, () => undefined);
    expect(found.textContent).toBe("No combination was found that helps.");
    expect(found.querySelector("button")).toBeNull();
  });

  it("from a baseline within noise has a note and is not green", () => {
    const huge = shown({ speedup: 72, speedup_range: gain(72, 60, 80) }, { ...whatifs.baseline, iteration_ms: gain(0.2, 0.05, 0.35) });
    expect(huge.textContent).toContain("from a baseline within noise");
    expect(colour(huge)).toBe("");
  });
});
