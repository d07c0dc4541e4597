import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { CurvePoint, ProfileReport } from "../../src/protocol";
import { Scale } from "../../webview/scale";

const { profile } = JSON.parse(readFileSync(new URL("../fixtures/report.json", import.meta.url), "utf8")) as { profile: ProfileReport };
const point = (batch_size: number, iteration: number, memory: number, extrapolated = false): CurvePoint => {
  const exact = (value: number) => ({ value, low: value, high: value });
  return { batch_size, iteration_ms: exact(iteration), throughput: exact((1000 * batch_size) / iteration), peak_bytes: exact(memory), measured: true, extrapolated };
};

describe("a scale", () => {
  const scale = Scale.of([point(8, 10, 100), point(64, 20, 400), point(256, 80, 1600, true)], null);

  it("reads the curve between its points", () => {
    expect(scale?.at(36)).toMatchObject({ iterationMs: 15, memoryBytes: 250, extrapolated: false });
    expect(scale?.at(1000).batchSize).toBe(256);
    expect(scale?.trustedUpTo).toBe(64);
  });

  it("goes from a place on the bar to a batch size and back", () => {
    for (const size of [8, 20, 36, 64, 128, 256]) {
      const at = scale?.fraction("memory", scale.value("memory", size)) ?? 0;
      expect(scale?.batchSizeAt("memory", at)).toBe(size);
    }
    expect(scale?.batchSizeAt("memory", 0)).toBe(8);
    expect(scale?.batchSizeAt("throughput", 1)).toBeGreaterThanOrEqual(63);
  });

  it("is as far as the device's memory where that is near, and else not", () => {
    expect(Scale.of([point(8, 10, 100), point(64, 20, 400)], 800)?.axes.memory.top).toBe(800);
    expect(Scale.of([point(8, 10, 100), point(64, 20, 400)], 80_000)?.axes.memory.top).toBe(400);
  });

  it("begins at its lowest point where it is flat", () => {
    expect(Scale.of([point(8, 8, 100), point(64, 60, 101)], null)?.axes.memory.bottom).toBe(100);
  });

  it("needs two points", () => {
    expect(Scale.of([point(8, 10, 100)], null)).toBeNull();
  });

  it("of a real profile puts the script's own batch size where its throughput is", () => {
    const real = Scale.of(profile.curve, profile.memory.capacity_bytes);
    const own = profile.batch_size.value ?? 0;
    expect(real?.batchSizeAt("throughput", real.fraction("throughput", real.value("throughput", own)))).toBe(own);
  });
});
