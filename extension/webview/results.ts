/** Results of longer requests: other GPUs, a verification, the best combination. */

import type { BaselineReport, BestReport, DevicesReport, EstimateReport, Interval, VerifyReport } from "../src/protocol";
import type { FromView } from "../src/view/messages";
import { h } from "./dom";
import { baselineDoubt, byteUnit, change, direction, rateUnit, share, speedup, speedupWithRange, text, timeUnit, withSpread } from "./units";

export function devices(report: DevicesReport | null, comparing: boolean, trusted: boolean, post: (message: FromView) => void): HTMLElement[] {
  const ask = h(
    "button",
    { class: "secondary", "data-key": "devices", onclick: () => post(comparing ? { type: "command", command: "skyline.cancelRun" } : { type: "devices" }) },
    comparing ? "Predicting… cancel" : report ? "Predict again" : "Predict on other GPUs",
  );
  if (!trusted) return [h("div", { class: "muted" }, "Trust this workspace to predict the script on other GPUs.")];
  if (!report) return [h("div", { class: "muted" }, "The GPUs need not be present. Takes about a minute."), h("div", { class: "actions" }, ask)];
  const epochs = report.span.epoch;
  const rate = rateUnit(...report.devices.map((one) => one.as_is.throughput?.value ?? 0));
  const rows = [...report.devices]
    .sort((a, b) => a.as_is.iteration_ms.value - b.as_is.iteration_ms.value)
    .map((one) =>
      h(
        "tr",
        { title: `${one.full_name}, ${text(one.memory_bytes, byteUnit(one.memory_bytes))}: ${one.fits}; ${one.as_is.throughput ? withSpread(one.as_is.throughput, rate) : ""}; largest batch ${one.largest_batch.size ?? one.largest_batch.reason}` },
        h("th", { scope: "row" }, one.gpu),
        h("td", {}, one.as_is.throughput ? text(one.as_is.throughput.value, rate).replace(` ${rate.name}`, "") : withSpread(one.as_is.iteration_ms, timeUnit(one.as_is.iteration_ms.value))),
        h("td", {}, one.as_is.cost_usd ? dollars(one.as_is.cost_usd.value) : "?"),
        h("td", {}, one.largest_batch.size === null ? "?" : String(one.largest_batch.size)),
      ),
    );
  const head = h("tr", {}, h("th", {}, "GPU"), h("th", {}, rate.name), h("th", {}, epochs ? "epoch" : "cost"), h("th", {}, "batch ≤"));
  const basis = `predicted, not measured; ${epochs ? "an epoch" : `${report.span.iterations.toLocaleString("en")} iterations`} at the cheapest list price`;
  return [h("p", { class: "answer", role: "status" }, report.answer), h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)), h("div", { class: "muted caption" }, basis), h("div", { class: "actions" }, ask)];
}

/** A price: two significant digits below a dollar, otherwise with cents. */
function dollars(value: number): string {
  return `$${value >= 1 || value === 0 ? value.toFixed(2) : value.toPrecision(2)}`;
}

/** The result of a verification in words, suitable for screen readers. Its colour shows the direction of the measured gain. */
export function verified(report: VerifyReport): HTMLElement {
  const { measured, predicted, baseline } = report;
  const gain = speedupWithRange(measured.speedup);
  if (!report.valid) {
    const why = [report.reason, report.hint?.replace(/\.$/, "")].filter(Boolean).join(". ");
    return h("div", { class: "verified worse", role: "status" }, `The measurement is not valid: ${why}. It showed ${gain} samples/s.`);
  }
  const doubt = baseline ? baselineDoubt(measured.speedup.value, baseline.iteration_ms) : "";
  const figures = predicted
    ? `Predicted → measured ${change(typical(predicted), measured.iteration_ms, timeUnit)} per iteration`
    : `Measured ${change(baseline?.iteration_ms ?? null, measured.iteration_ms, timeUnit)} per iteration, without a prediction`;
  const off = report.error === null ? "" : `, prediction ${share(Math.abs(report.error))} too ${report.error < 0 ? "short" : "long"}`;
  const held = report.held === null ? "" : report.held ? " (within its interval)" : " (outside its interval)";
  return h(
    "div",
    { class: `verified ${doubt ? "" : direction(measured.speedup)}`, role: "status" },
    h("b", {}, `Verified: ${gain} samples/s. `),
    `${figures}${off}${held}, ${measured.rounds} rounds.${doubt && ` The gain comes ${doubt}.`}`,
  );
}

/** The estimate without occasional costs such as the start of an epoch, because a verification does not measure these. */
function typical({ iteration_ms: { value, low, high }, occasional_ms, occasional_range_ms: rarely }: EstimateReport): Interval {
  const left = (whole: number, part: number): number => Math.sqrt(Math.max(0, whole ** 2 - part ** 2));
  const [below, above] = rarely ? [rarely.value - rarely.low, rarely.high - rarely.value] : [0, 0];
  const middle = value - occasional_ms;
  return { value: middle, low: middle - left(value - low, below), high: middle + left(high - value, above) };
}

export function best(report: BestReport, baseline: BaselineReport | null, post: (message: FromView) => void): HTMLElement {
  const { estimate } = report;
  if (!estimate || report.choices.length === 0) return h("div", { class: "verified", role: "status" }, report.reason ?? "No combination was found that helps.");
  const sizes = report.choices.filter((choice) => choice.startsWith("batch_size=")).map((choice) => Number(choice.split("=", 2)[1]));
  const question = { batchSize: sizes[0] ?? null, whatifs: report.choices.filter((choice) => !choice.startsWith("batch_size=")) };
  const { speedup_range: range } = estimate;
  const doubt = baseline ? baselineDoubt(estimate.speedup, baseline.iteration_ms) : "";
  const notes = [estimate.extrapolated && " Extrapolated: this batch size is outside the measured ones.", doubt && ` The gain comes ${doubt}.`];
  const words = `${report.choices.join(", ")}: ${range ? speedupWithRange(range) : speedup(estimate.speedup)} samples/s, the best of ${report.tried} combinations.${notes.filter(Boolean).join("")} `;
  return h("div", { class: `verified ${estimate.extrapolated || doubt ? "" : direction(range)}`, role: "status" }, words, h("button", { class: "link", "data-key": "apply best", onclick: () => post({ type: "applyTogether", question }) }, "Write it into the code"));
}
