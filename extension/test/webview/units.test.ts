import { describe, expect, it } from "vitest";
import { baselineDoubt, byteChange, byteUnit, change, countIn, direction, duration, rateUnit, share, speedup, speedupWithRange, spread, text, timeChange, timeUnit, toLoss } from "../../webview/units";

const between = (value: number, half: number) => ({ value, low: value - half, high: value + half });

describe("formatted numbers", () => {
  it.each([
    [182.44, "182.4 ms"],
    [2.276, "2.28 ms"],
    [0.0671, "67.1 µs"],
    [12_345, "12.3 s"],
    [1234, "1234 ms"],
  ])("%f ms", (value, shown) => expect(text(value, timeUnit(value))).toBe(shown));

  it.each([
    [1.9e9, "1.9 GB"],
    [999.96e6, "1.0 GB"],
    [150e6, "150 MB"],
    [12, "12 B"],
  ])("%f bytes", (value, shown) => expect(text(value, byteUnit(value))).toBe(shown));

  it("a change from now to then", () => {
    expect(change(between(175, 2), between(231, 9), rateUnit)).toBe("175 → 231 samples/s ±9");
    expect(change(between(175, 2), null, rateUnit)).toBe("175 samples/s ±2");
    expect(change(between(175, 2), between(175.2, 0), rateUnit)).toBe("as now: 175 samples/s");
    expect(change(null, null, rateUnit)).toBe("unknown");
  });

  it("images per second if a batch contains images", () => {
    countIn({ noun: "images", per_sample: 1 });
    expect(text(175, rateUnit(175))).toBe("175 images/s");
    countIn({ noun: "tokens", per_sample: 64 });
    expect(text(175, rateUnit(175))).toBe("175 samples/s");
    countIn(null);
    expect(text(175, rateUnit(175))).toBe("175 samples/s");
  });

  it("a lopsided spread as a range", () => {
    expect(spread({ value: 100, low: 90, high: 340 }, timeUnit(100))).toBe(" (90.0–340.0)");
  });

  it("no spread that is finer than the number", () => {
    expect(spread(between(10.6e6, 10), byteUnit(10.6e6))).toBe("");
    expect(spread(between(10.6e6, 60_000), byteUnit(10.6e6))).toBe(" ±0.1");
  });

  it("a gain with its range, and its direction if it has one", () => {
    expect(speedupWithRange({ value: 1.27, low: 1.2, high: 1.33 })).toBe("+27 % (+20 % to +33 %)");
    expect(speedupWithRange({ value: 0.72, low: 0.28, high: 3.56 })).toBe("not known (-72 % to +256 %)");
    expect(direction({ value: 1.27, low: 1.2, high: 1.33 })).toBe("better");
    expect(direction({ value: 1.27, low: 0.9, high: 1.33 })).toBe("");
    expect(direction({ value: 0.8, low: 0.7, high: 0.9 })).toBe("worse");
    expect(direction(null)).toBe("");
    // These gains are shown as 0 %.
    expect(direction({ value: 1.0004, low: 1.0001, high: 1.0008 })).toBe("");
    expect(direction({ value: 0.9996, low: 0.9991, high: 0.9999 })).toBe("");
  });

  it("a large factor from a baseline within noise", () => {
    expect(baselineDoubt(72, between(0.2, 0.15))).toBe("from a baseline within noise, 0.20 ms ±0.15");
    expect(baselineDoubt(72, between(0.2, 0.05))).toBe("");
    expect(baselineDoubt(9, between(0.2, 0.15))).toBe("");
  });

  it.each([
    [2.34, "2.3 s"],
    [45, "45 s"],
    [200, "3 min"],
    [9000, "2.5 h"],
  ])("%f s", (seconds, shown) => expect(duration(seconds)).toBe(shown));

  it("signs", () => {
    expect(timeChange(between(-5.1, 1))).toBe("-5.1 ±1.0 ms");
    expect(timeChange(between(-5, 0.01))).toBe("-5.0 ms");
    expect(timeChange({ value: -5, low: -5.5, high: 2 })).toBe("-5.0 (-5.5 to +2.0) ms");
    expect(timeChange(between(0.004, 0.01))).toBe("+4.0 ±10.0 µs");
    expect(byteChange(-1.1e9)).toBe("-1.1 GB");
    expect(speedup(1.27)).toBe("+27 %");
    expect(speedup(0.95)).toBe("-5.0 %");
    expect(speedup(1)).toBe("0 %");
    expect(speedup(71.94)).toBe("72×");
    expect(share(0.0004)).toBe("<0.1 %");
  });
});

describe("the time to the same loss", () => {
  const ratio = { value: 1.2, low: 1, high: 1.5 };
  const found = { samples_ratio: ratio, time_ratio: ratio, time_s: null, now_s: null, usd: null, basis: "" };

  it.each([
    [null, ""],
    [found, "1.20x the time (1.00–1.50x)"],
    [{ ...found, time_s: { value: 12_960, low: 1, high: 2 }, now_s: { value: 10_800, low: 1, high: 2 }, usd: { value: 9, low: 8, high: 10 } }, "1.20x the time (1.00–1.50x), 3.6 h (now 3 h), $9.00"],
    [{ ...found, time_s: { value: 45, low: 1, high: 2 }, now_s: { value: 600, low: 1, high: 2 } }, "1.20x the time (1.00–1.50x), 45 s (now 10 min)"],
  ])("of %j", (of, words) => {
    expect(toLoss(of)).toBe(words);
  });
});
