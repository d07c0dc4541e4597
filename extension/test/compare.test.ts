import { describe, expect, it, vi } from "vitest";
import type { ComparisonReport, DiffReport, LineChange } from "../src/protocol";

vi.mock("vscode", () => ({}));
const { asText } = await import("../src/commands/compare");

const exactly = (value: number) => ({ value, low: value, high: value });
const side = (iteration: number, batch = 32) => ({ id: "a", created: "2026-05-04T10:00:00+00:00", script: "/p/train.py", iteration_ms: exactly(iteration), throughput: exactly((1000 * batch) / iteration), peak_bytes: exactly(1e6), batch_size: batch });
const line = (source: string, before: number, after: number, places: Partial<LineChange> = {}): LineChange => ({ file: "/p/train.py", line_before: 8, line_after: 8, function: "main", source, before_ms: before, after_ms: after, ...places });
const compared = (news: Partial<DiffReport>): string[] => {
  const profiles: DiffReport = { schema: "skyline.diff/1", before: side(45), after: side(185), change_ms: 140, change: 140 / 45, noise: 0.02, verdict: "slower", per_sample: true, peak_change_bytes: 0, phases: [], lines: [], notes: [], ...news };
  return asText({ profiles, source: "" } satisfies ComparisonReport).split("\n");
};

describe("the comparison with an earlier profile", () => {
  it("begins with the answer and the line with the largest change", () => {
    const text = compared({ lines: [line("    loss.backward()", 30, 29), line("    time.sleep(0.15)", 10.1, 150.2)] });
    expect(text[0]).toBe("# Slower: 185.0 ms per iteration, before 45.0 ms; time per sample +311 %");
    expect(text[2]).toBe("The line with the largest increase is train.py:8, `time.sleep(0.15)`: 150.2 ms per iteration, before 10.1 ms.");
  });

  it("has tables with aligned columns in the Markdown text", () => {
    const text = compared({ lines: [line("    loss = nn.functional.mse_loss(net(prepare(x)), y)", 0.5, 0.9)] });
    const tables = text.filter((row) => row.startsWith("|"));
    const figures = tables.slice(0, 6).map((row) => row.split("|").slice(1, 4).map((cell) => cell.length));
    expect(new Set(figures.map(String)).size).toBe(1);
    expect(tables.some((row) => /^\| +45\.0 \| +185\.0 \| \+140\.0 \| iteration \(ms\)$/.test(row))).toBe(true);
    expect(tables.slice(-3)).toEqual(["| before |  now | change | line (ms)", "|-------:|-----:|-------:|---", "|   0.50 | 0.90 |  +0.40 | `loss = nn.functional.mse_lo…`"]);
  });

  it("has rows that fit next to the script", () => {
    const phases = ["data", "forward", "backward", "optimizer", "communication", "other"].map((phase) => ({ phase, before_ms: 1234.5, after_ms: 2345.6 }));
    const lines = [line("    loss = nn.functional.cross_entropy(net(x), y)", 12345.6, 23456.7)];
    for (const row of compared({ phases, lines }).filter((one) => one.startsWith("|"))) expect(row.length, row).toBeLessThanOrEqual(64);
  });

  it("names a new line and a removed line", () => {
    expect(compared({ lines: [line("prepare(x)", 0, 140, { line_before: 0 })] })[2]).toBe("The line with the largest increase is train.py:8, `prepare(x)`: 140.0 ms per iteration, a new line.");
    const faster = compared({ before: side(185), after: side(180), change: -0.027, verdict: "faster", lines: [line("prepare(x)", 5, 0, { line_after: 0 }), line("step()", 1, 2)] });
    expect(faster[0]).toBe("# Faster: 180.0 ms per iteration, before 185.0 ms; time per sample -2.7 %");
    expect(faster[2]).toBe("The line with the largest decrease is train.py:8, `prepare(x)`: removed, before 5.00 ms per iteration.");
  });

  it("names no line within the noise, or if the batch sizes differ", () => {
    const lines = [line("step()", 1, 2)];
    expect(compared({ verdict: "within noise", change: 0.01, lines })[0]).toBe("# No difference beyond the noise of ±2.0 %");
    for (const news of [{ verdict: "within noise" as const, lines }, { after: side(185, 64), lines }]) expect(compared(news).join("\n")).not.toContain("The line with");
  });
});
