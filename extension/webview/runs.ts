/** The sections of the watched training and of the search by trials. */

import type { Interval, TuneReport, WatchReport } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import type { SearchAsked } from "../src/view/runs-state";
import { h } from "./dom";
import { byteUnit, share, speedupWithRange, text, timeUnit } from "./units";

type Post = (message: FromView) => void;
type Trial = TuneReport["trials"][number];

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 60;
const ALLOWED = { exact: "same computation", numerics: "rounding may differ", convergence: "training may converge differently", model: "a different model" } as const;
const MINUTES = [1, 5, 15, 60] as const;

export function watched({ runs, script }: ViewState, post: Post): HTMLElement[] {
  const { watched: report } = runs;
  if (!report) return [...problem(runs.reason), h("div", { class: "muted" }, `This script has not been watched yet. Run skyline watch ${script?.name ?? "train.py"} in a terminal: it runs the training and checks it with rules.`)];
  const last = report.points.at(-1);
  const facts = [
    { running: "running", silent: "no update for 30 s", ended: report.exit_code === 0 ? "ended" : `ended with exit code ${report.exit_code ?? "?"}` }[report.state],
    last && `iteration ${last.iteration.toLocaleString("en")}`,
    last && `${text(last.iteration_ms, timeUnit(last.iteration_ms))} each`,
    last && last.loss !== null && `loss ${last.loss.toPrecision(4)}`,
    last && last.memory_bytes !== null && text(last.memory_bytes, byteUnit(last.memory_bytes)),
    progressOf(report),
  ];
  return [
    ...problem(runs.reason),
    h("div", { class: report.state === "silent" ? "busy" : "", role: "status" }, facts.filter(Boolean).join(" · ")),
    ...(last ? [chart(report), shares(report)] : []),
    ...[...report.alerts].reverse().map((alert) => {
      const over = alert.over_iteration === null ? "" : `, ended at ${alert.over_iteration.toLocaleString("en")}`;
      const open = alert.line ? (): void => post({ type: "open", place: { kind: "line", file: alert.file, line: alert.line, source: "" } }) : null;
      return h("button", { class: "plain finding alert", "data-key": `${alert.rule} ${alert.iteration}`, title: alert.evidence.join("\n"), onclick: open }, h("span", { class: "code" }, alert.rule), h("span", {}, `${alert.title} (iteration ${alert.iteration.toLocaleString("en")}${over})`));
    }),
    ...(report.alerts.length === 0 ? [h("div", { class: "muted" }, "No rule has found a problem in this run.")] : []),
  ];
}

/** Epoch, quality and target, if the training logs them. */
function progressOf({ logged }: WatchReport): string {
  if (!logged) return "";
  const goal = logged.target === null ? "" : ` (target ${logged.target})`;
  const parts = [logged.epoch !== null && `epoch ${Number(logged.epoch.toPrecision(4))}`, logged.quality !== null && `${logged.metric} ${Number(logged.quality.toPrecision(4))}${goal}`, logged.status];
  return parts.filter(Boolean).join(", ");
}

/** The time per iteration over the run, from 0 to a little above the usual times. */
function chart({ points }: WatchReport): HTMLElement {
  const times = points.map((point) => point.iteration_ms);
  const usual = [...times].sort((a, b) => a - b)[Math.floor(0.95 * (times.length - 1))] ?? 0;
  const top = 1.1 * Math.max(usual, times.at(-1) ?? 0) || 1;
  const x = (index: number): number => (points.length > 1 ? (WIDTH * index) / (points.length - 1) : 0);
  const y = (ms: number): number => HEIGHT * (1 - Math.min(ms / top, 1));
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Time per iteration, at most ${text(top, timeUnit(top))}`);
  line.setAttribute("points", times.map((ms, index) => `${x(index).toFixed(1)},${y(ms).toFixed(1)}`).join(" "));
  svg.append(line);
  return h("div", { class: "times" }, h("div", { class: "muted" }, `time per iteration, 0 to ${text(top, timeUnit(top))}`), svg as unknown as HTMLElement);
}

/** The parts of an iteration over the latest tenth of the run. */
function shares({ points }: WatchReport): HTMLElement {
  const latest = points.slice(-Math.max(1, Math.floor(points.length / 10)));
  const mean = (of: (point: WatchReport["points"][number]) => number): number => latest.reduce((sum, point) => sum + of(point), 0) / latest.length;
  const [wait, forward] = [mean((point) => point.wait_share), mean((point) => point.forward_share)];
  const rest = Math.max(0, 1 - wait - forward);
  return h("div", { class: "muted" }, `waits for data ${share(wait)} · forward ${share(forward)} · backward and step ${share(rest)}`);
}

export function trials({ runs, trusted }: ViewState, asked: SearchAsked, post: Post): HTMLElement[] {
  const { trials: progress, found, searching, reason } = runs;
  if (!trusted) return [h("div", { class: "muted" }, "Trust this workspace to search by measured trials.")];
  const rows = found?.trials ?? progress?.trials ?? [];
  const best = found ? found.best : progress && progress.best !== null ? (progress.trials[progress.best] ?? null) : null;
  return [
    ...problem(reason),
    ...(searching && progress?.running ? [budget(progress.spent_s, progress.budget_s, progress.doing)] : []),
    ...(found ? [outcome(found, post)] : best?.speedup ? [h("div", { role: "status" }, `Best so far: ${speedupWithRange(best.speedup)} samples/s with ${best.changes.join(", ")}.`)] : []),
    ...(rows.length > 0 ? [table(rows, best)] : [h("div", { class: "muted" }, "Simulations propose combinations of changes, and each is measured alternately with the unchanged script, in memory. No file is changed.")]),
    searching ? h("div", { class: "actions" }, h("button", { class: "secondary", "data-key": "search", onclick: () => post({ type: "command", command: "skyline.cancelRun" }) }, "Searching… cancel")) : question(asked, rows.length > 0, post),
  ];
}

function budget(spent: number, total: number, doing: string): HTMLElement {
  const left = Math.max(0, Math.round(total - spent));
  const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} of ${Number((total / 60).toPrecision(3))} min left`;
  return h("div", { class: "progress", role: "status" }, h("progress", { max: total, value: Math.min(spent, total), "aria-label": "Budget" }), `${clock} · ${doing}`);
}

/** The result, with the button that writes the best combination. */
function outcome(report: TuneReport, post: Post): HTMLElement {
  const { best, verified } = report;
  const gain = (speedup: Interval | null | undefined): string => (speedup ? `${speedupWithRange(speedup)} samples/s` : "unknown");
  const spent = ` ${Math.round(report.spent_s)} s of ${Math.round(report.budget_s)} s used, ${report.ended}. `;
  if (report.outcome !== "faster" || !best) {
    const words = { nothing: "No change here gains more than 2 %.", unverified: `Best so far: ${gain(best?.speedup)} with ${best?.changes.join(", ") ?? ""}, not verified.`, unmeasured: "Nothing was measured." }[report.outcome] ?? report.outcome;
    return h("div", { class: "verified", role: "status" }, words, spent);
  }
  const sizes = best.changes.filter((one) => one.startsWith("batch_size=")).map((one) => Number(one.split("=", 2)[1]));
  const write = { batchSize: sizes[0] ?? null, whatifs: best.changes.filter((one) => !one.startsWith("batch_size=")) };
  return h("div", { class: "verified better", role: "status" }, h("b", {}, `${gain(verified?.speedup ?? best.speedup)}, measured, with ${best.changes.join(", ")}.`), spent, h("button", { class: "link", "data-key": "apply trial", onclick: () => post({ type: "applyTogether", question: write }) }, "Write it into the code"));
}

function table(rows: readonly Trial[], best: Trial | null): HTMLElement {
  const fastest = [...rows].sort((a, b) => (b.speedup?.value ?? 0) - (a.speedup?.value ?? 0));
  const isBest = (one: Trial): boolean => best !== null && String(one.changes) === String(best.changes);
  const row = (one: Trial): HTMLElement =>
    h(
      "tr",
      { title: one.reason ?? `${Math.round(one.took_s)} s` },
      h("th", { scope: "row" }, one.changes.join(", "), isBest(one) ? " ◀ best" : ""),
      h("td", {}, speedupWithRange(one.predicted)),
      h("td", {}, one.speedup ? speedupWithRange(one.speedup) : "failed"),
    );
  return h("div", { class: "scrolled" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "changes"), h("th", {}, "predicted"), h("th", {}, "measured"))), h("tbody", {}, ...fastest.map(row))));
}

/** The limits of a search, and its button. */
function question(asked: SearchAsked, some: boolean, post: Post): HTMLElement {
  const select = (key: string, label: string, choices: readonly (readonly [string, string])[], chosen: string): HTMLElement => {
    const options = choices.map(([value, words]) => h("option", { value, selected: value === chosen }, words));
    return h("label", {}, label, h("select", { "data-key": key }, ...options));
  };
  const root = h(
    "div",
    { class: "question" },
    select("search minutes", "minutes", MINUTES.map((one) => [String(one), String(one)] as const), String(asked.budgetSeconds / 60)),
    select("search allow", "allowed", Object.entries(ALLOWED), asked.allow),
  );
  const value = (key: string): string => root.querySelector<HTMLSelectElement>(`[data-key="${key}"]`)?.value ?? "";
  const search = (resume: boolean): void => post({ type: "search", asked: { budgetSeconds: 60 * Number(value("search minutes")), allow: value("search allow") as SearchAsked["allow"], resume } });
  return h(
    "div",
    {},
    root,
    h(
      "div",
      { class: "actions" },
      h("button", { class: "secondary", "data-key": "search", onclick: () => search(false) }, "Search by trials"),
      some && h("button", { class: "link", "data-key": "search on", onclick: () => search(true) }, "Continue from these"),
    ),
  );
}

function problem(reason: string): HTMLElement[] {
  return reason ? [h("div", { class: "notice", role: "alert" }, reason)] : [];
}
