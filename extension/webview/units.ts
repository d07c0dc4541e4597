/** Formats numbers by the rules of Skyline's reports: three to four digits, always with the unit. */

import type { BatchContentsReport, EstimateReport, Interval } from "../src/protocol";

/** A unit and a number of decimals shared by several numbers. */
export interface Unit {
  readonly name: string;
  readonly factor: number;
  readonly decimals: number;
}

const BYTES: readonly (readonly [string, number])[] = [
  ["TB", 1e12],
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
];

/** The unit and decimals for the largest of several times in ms. */
export function timeUnit(...values: readonly number[]): Unit {
  const largest = Math.max(0, ...values.map(Math.abs));
  if (largest >= 10_000) return { name: "s", factor: 1e-3, decimals: decimals(largest * 1e-3) };
  if (largest > 0 && largest < 0.1) return { name: "µs", factor: 1e3, decimals: decimals(largest * 1e3) };
  return { name: "ms", factor: 1, decimals: decimals(largest) };
}

/** The decimal unit (GB is 10^9) for the largest of several byte counts. */
export function byteUnit(...values: readonly number[]): Unit {
  const largest = Math.max(0, ...values.map(Math.abs));
  const [name, size] = BYTES.find(([, one]) => largest >= one * 0.9995) ?? ["B", 1];
  return { name, factor: 1 / size, decimals: name === "B" || largest >= 100 * size ? 0 : 1 };
}

let counted = "samples";

/** Make rates count images if a batch contains images, otherwise samples. */
export function countIn(contents: BatchContentsReport | null | undefined): void {
  counted = contents?.noun === "images" ? "images" : "samples";
}

/** The decimals for the largest of several rates in samples, or images, per second. */
export function rateUnit(...values: readonly number[]): Unit {
  const largest = Math.max(0, ...values.map(Math.abs));
  return { name: `${counted}/s`, factor: 1, decimals: largest >= 100 ? 0 : decimals(largest) };
}

/** The number without its unit. */
export function number(value: number, unit: Unit): string {
  const text = (value * unit.factor).toFixed(unit.decimals);
  return /[1-9]/.test(text) ? text : text.replace("-", "");
}

/** The number with its sign and without its unit. Zero after rounding has no sign. */
export function signed(value: number, unit: Unit): string {
  const text = number(value, unit);
  return /[1-9]/.test(text) && !text.startsWith("-") ? `+${text}` : text;
}

/** `182.4 ms`. */
export function text(value: number, unit: Unit): string {
  return `${number(value, unit)} ${unit.name}`;
}

/** ` ±2.1`, or ` (61–340)` if the interval is wide and asymmetric. Empty without a spread. */
export function spread(interval: Interval, unit: Unit): string {
  const half = halfWidth(interval, unit);
  if (half && lopsided(interval)) return ` (${number(interval.low, unit)}–${number(interval.high, unit)})`;
  return half && ` ±${half}`;
}

/** The number after the plus-minus sign. Empty if it is finer than the number before it. */
function halfWidth({ low, high }: Interval, unit: Unit): string {
  const digits = (((high - low) / 2) * unit.factor).toFixed(unit.decimals);
  return high > low && /[1-9]/.test(digits) ? digits : "";
}

/** True if plus-minus would mislead: a wide interval whose value is far from its middle. */
function lopsided({ value, low, high }: Interval): boolean {
  const [below, above] = [value - low, high - value];
  return (high - low) / 2 > 0.2 * Math.abs(value) && Math.max(below, above) > 1.5 * Math.min(below, above);
}

/** `182.4 ms ±2.1`. */
export function withSpread(interval: Interval, unit: Unit): string {
  return text(interval.value, unit) + spread(interval, unit);
}

/** `175 → 231 samples/s ±9`. A single number if there is no second one. */
export function change(now: Interval | null, then: Interval | null, unitOf: (...values: readonly number[]) => Unit): string {
  const last = then ?? now;
  if (!last) return "unknown";
  const unit = unitOf(last.value, now?.value ?? 0);
  if (!now || !then) return withSpread(last, unit);
  const same = number(now.value, unit) === number(then.value, unit);
  return (same ? "as now: " : `${number(now.value, unit)} → `) + withSpread(then, unit);
}

/** A signed change with its spread: `-5.1 ±1.0 ms`, or `-5.1 (-5.5 to +2.0) ms` if the interval is wide and asymmetric. */
export function timeChange(interval: Interval): string {
  const half = (interval.high - interval.low) / 2;
  const largest = Math.max(Math.abs(interval.value), half);
  const found = timeUnit(largest);
  const unit = found.name === "ms" && largest >= 1 ? { ...found, decimals: Math.min(1, found.decimals) } : found;
  const around = halfWidth(interval, unit);
  const range = around && lopsided(interval) ? ` (${signed(interval.low, unit)} to ${signed(interval.high, unit)})` : around && ` ±${around}`;
  return `${signed(interval.value, unit)}${range} ${unit.name}`;
}

/** `-1.1 GB`. */
export function byteChange(value: number): string {
  const unit = byteUnit(value);
  return `${signed(value, unit)} ${unit.name}`;
}

/** `22 %`, with one decimal below ten. */
export function share(value: number): string {
  const percent = value * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return `${percent.toFixed(percent > 0 && percent < 9.95 ? 1 : 0)} %`;
}

/** Changes by at least this factor are shown as a factor instead of in percent. */
const FACTOR = 10;

/** Change of throughput: `+27 %`, or `71×` for large factors. */
export function speedup(value: number): string {
  if (value >= FACTOR) return `${value.toFixed(0)}×`;
  const percent = (value - 1) * 100;
  const digits = percent.toFixed(Math.abs(percent) >= 9.995 ? 0 : 1);
  return /[1-9]/.test(digits) ? `${percent > 0 ? "+" : ""}${digits} %` : "0 %";
}

/** Ratio of the ends of a range that includes no change, from which the range says nothing: half to twice the speed. */
const WIDE = 4;

/** False for a range that says nothing, because the change may halve the speed or double it. */
export function isKnown(range: Interval | null | undefined): boolean {
  return !range || range.low >= 1 || range.high <= 1 || range.high < WIDE * range.low;
}

/** `+27 % (+20 % to +33 %)`; `not known (-72 % to +256 %)` for a range that says nothing. */
export function speedupWithRange(value: Interval): string {
  if (!isKnown(value)) return `not known (${speedup(value.low)} to ${speedup(value.high)})`;
  return value.high > value.low ? `${speedup(value.value)} (${speedup(value.low)} to ${speedup(value.high)})` : speedup(value.value);
}

/** A smaller change is shown as 0 % and counts as none. */
const NOTHING = 5e-4;
/** A time with this relative spread is too uncertain as the denominator of a large factor. */
const NOISE = 0.5;

/** The reason why a large factor means little. Empty if there is none. */
export function baselineDoubt(gain: number, baseline: Interval): string {
  if (gain < FACTOR || (baseline.high - baseline.low) / 2 < NOISE * baseline.value) return "";
  return `from a baseline within noise, ${withSpread(baseline, timeUnit(baseline.value))}`;
}

/** The direction of a change if it is the same over its whole range. Otherwise, or if unknown, empty. */
export function direction(gain: Interval | null): "better" | "worse" | "" {
  if (!gain || Math.abs(gain.value - 1) < NOTHING) return "";
  if (gain.low > 1) return "better";
  return gain.high < 1 ? "worse" : "";
}

/** `12 s`, `3 min`, `2 h`. */
export function duration(seconds: number): string {
  if (seconds < 100) return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  return seconds < 6000 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function decimals(largest: number): number {
  if (largest >= 999.95) return 0;
  if (largest >= 9.995) return 1;
  return largest > 0 ? 2 : 0;
}

const SPANS: readonly (readonly [string, number, number])[] = [
  ["d", 86_400, 48 * 3_600],
  ["h", 3_600, 2 * 3_600],
  ["min", 60, 300],
  ["s", 1, 0],
];

/** `1.40x the time (1.21–1.63x), 3.2 h (now 2.3 h), $4.10`. Empty if nothing is known about it. */
export function toLoss(found: EstimateReport["to_loss"]): string {
  if (!found) return "";
  const { time_ratio: ratio, time_s: then, now_s: now, usd } = found;
  const times = `${ratio.value.toFixed(2)}x the time (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}x)`;
  return [times, then && now && `${span(then.value)} (now ${span(now.value)})`, usd && `$${usd.value.toFixed(2)}`].filter(Boolean).join(", ");
}

function span(seconds: number): string {
  const [unit, length] = SPANS.find(([, , from]) => seconds >= from) ?? ["s", 1];
  return `${Number((seconds / length).toPrecision(3))} ${unit}`;
}
