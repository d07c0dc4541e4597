import { describe, expect, it } from "vitest";
import type { CurvePoint } from "../../src/protocol";
import { Scale, usualSizes } from "../../webview/scale";
import { KINDS, recorded } from "../recorded";

const point = (batch_size: number, iteration: number, memory: number, extrapolated = false): CurvePoint => {
  const exact = (value: number) => ({ value, low: value, high: value });
  return { batch_size, iteration_ms: exact(iteration), throughput: exact((1000 * batch_size) / iteration), peak_bytes: exact(memory), measured: true, extrapolated };
};
const scaleOf = (...points: CurvePoint[]): Scale => {
  const scale = Scale.of(points, points[0]?.batch_size ?? null);
  if (!scale) throw new Error("no scale");
  return scale;
};

describe("a scale", () => {
  const scale = scaleOf(point(8, 10, 100), point(64, 20, 400), point(256, 80, 1600, true));

  it("reads the curve between its points", () => {
    expect(scale.at(36)).toMatchObject({ iterationMs: 15, memoryBytes: 250, extrapolated: false });
    expect(scale.at(1000).batchSize).toBe(256);
    expect(scale.trustedUpTo).toBe(64);
  });

  it("converts between a position on the bar and a batch size", () => {
    for (const size of [8, 20, 40, 64, 128, 256]) {
      const at = scale.fraction("memory", scale.value("memory", size), size);
      expect(scale.batchSizeAt("memory", at)).toBe(size);
    }
  });

  it("has the minimum and maximum of the curve at its ends", () => {
    expect(scale.batchSizeAt("memory", 0)).toBe(8);
    expect(scale.batchSizeAt("memory", 1)).toBe(256);
    expect(scale.batchSizeAt("throughput", 0)).toBe(8);
    expect(scale.batchSizeAt("throughput", 1)).toBe(64);
    expect(scale.fraction("memory", 100, 8)).toBe(0);
    expect(scale.fraction("memory", 1600, 256)).toBe(1);
  });

  it("stands for batch sizes if the quantity is constant", () => {
    const flat = scaleOf(point(8, 10, 100), point(64, 20, 100));
    expect(flat.batchSizeAt("memory", 0)).toBe(8);
    expect(flat.batchSizeAt("memory", 0.5)).toBe(32);
    expect(flat.batchSizeAt("memory", 1)).toBe(64);
    expect(flat.fraction("memory", 100, 36)).toBe(0.5);
  });

  it("needs two points", () => {
    expect(Scale.of([point(8, 10, 100)], 8)).toBeNull();
    expect(Scale.of([], null)).toBeNull();
  });

  it.each(KINDS)("of the %s script has rising batch sizes along both bars", (kind) => {
    const { profile } = recorded(kind);
    const real = Scale.of(profile.curve, profile.batch_size.value);
    if (!real) throw new Error("no scale");
    for (const quantity of ["throughput", "memory"] as const) {
      const sizes = Array.from({ length: 21 }, (_, index) => real.batchSizeAt(quantity, index / 20));
      expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
      expect(sizes[0]).toBe(real.smallest);
      expect(new Set(sizes).size).toBeGreaterThan(5);
    }
    const own = profile.batch_size.value ?? 0;
    expect(real.batchSizeAt("throughput", real.fraction("throughput", real.value("throughput", own), own))).toBe(own);
  });
});

describe("usual batch sizes", () => {
  it("are all small sizes, then four per doubling", () => {
    expect(usualSizes(1, 64, null)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]);
  });

  it("include both ends and the script's own size", () => {
    expect(usualSizes(9, 33, 30)).toEqual([9, 10, 12, 14, 16, 20, 24, 28, 30, 32, 33]);
    expect(usualSizes(9, 33, 50)).not.toContain(50);
  });
});
