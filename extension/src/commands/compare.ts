/** Compares the profile shown with the previous one: a text page with the figures and a diff of the code. */

import * as vscode from "vscode";
import { type ComparisonReport, type DiffReport, type LineChange, METHODS } from "../protocol";
import type { Desk } from "../scripts/desk";
import type { Session } from "../server/session";

const MOST_LINES = 12;
/** Maximum number of characters of a line of code, so that a row fits next to the script. */
const CODE_WIDTH = 28;

/** Figures before and now, their change, and their name. */
type Row = readonly [before: string, now: string, change: string, what: string];

export async function comparePrevious(session: Session, desk: Desk): Promise<void> {
  const { uri, profile } = desk;
  const { connection } = session;
  if (!uri || !profile || !connection) throw new Error("There is no profile yet: profile a training script first.");
  const saved = await connection.request(METHODS.history, { uri: uri.toString() });
  const earlier = saved.filter((one) => one.id !== profile.id && one.created <= profile.created);
  const previous = [...earlier].sort((a, b) => a.created.localeCompare(b.created)).at(-1);
  if (!previous) {
    void vscode.window.showInformationMessage("There is no earlier profile of this script: profile it again after a change.");
    return;
  }
  const report = await connection.request(METHODS.compare, { uri: uri.toString(), before: previous.id, after: profile.id });
  const document = await vscode.workspace.openTextDocument({ content: asText(report), language: "markdown" });
  await vscode.window.showTextDocument(document, { preview: true, viewColumn: vscode.ViewColumn.Beside });
}

/** The comparison as Markdown. */
export function asText({ profiles, source }: ComparisonReport): string {
  const { before, after } = profiles;
  const times = (was: number, is: number, what: string): Row => [figure(was), figure(is), signed(is - was, figure), what];
  const moved = [...profiles.lines].sort((a, b) => Math.abs(b.after_ms - b.before_ms) - Math.abs(a.after_ms - a.before_ms));
  return [
    `# ${answer(profiles)}`,
    "",
    ...cause(profiles),
    ...table("", [
      [when(before.created), when(after.created), "", "profiled at"],
      times(before.iteration_ms.value, after.iteration_ms.value, "iteration (ms)"),
      [String(before.batch_size ?? "?"), String(after.batch_size ?? "?"), "", "batch size"],
      [mb(before.peak_bytes.value), mb(after.peak_bytes.value), signed(profiles.peak_change_bytes, mb), "peak memory (MB)"],
      ...profiles.phases.map((phase) => times(phase.before_ms, phase.after_ms, `${phase.phase} (ms)`)),
    ]),
    "",
    "## Lines with the largest changes",
    "",
    ...table("line (ms)", moved.slice(0, MOST_LINES).map((line) => times(line.before_ms, line.after_ms, code(line.source)))),
    "",
    ...(source ? ["## The code", "", "```diff", source.trimEnd(), "```", ""] : ["The code is the same.", ""]),
    ...profiles.notes.map((note) => `- ${note}`),
  ].join("\n");
}

/**
 * A table whose columns of figures are also aligned in the Markdown text. Names come last, without trailing blanks: an
 * editor next to the script is narrow and wraps longer rows.
 */
function table(what: string, rows: readonly Row[]): string[] {
  const head: Row = ["before", "now", "change", what];
  const widths = ([0, 1, 2] as const).map((column) => Math.max(...[head, ...rows].map((row) => row[column].length)));
  const aligned = (row: Row): string => `| ${widths.map((width, column) => (row[column] ?? "").padStart(width)).join(" | ")} | ${row[3]}`.trimEnd();
  return [aligned(head), `|${widths.map((width) => `${"-".repeat(width + 1)}:`).join("|")}|---`, ...rows.map(aligned)];
}

function code(source: string): string {
  const text = source.trim();
  return `\`${(text.length > CODE_WIDTH ? `${text.slice(0, CODE_WIDTH - 1)}…` : text).replaceAll("|", "\\|")}\``;
}

/** The first line: slower or faster, and by how much. */
function answer({ before, after, verdict, change, noise, per_sample }: DiffReport): string {
  if (verdict === "within noise") return `No difference beyond the noise of ±${percent(noise)} %`;
  const sign = change > 0 ? "+" : "-";
  const times = `${ms(after.iteration_ms.value)} per iteration, before ${ms(before.iteration_ms.value)}`;
  return `${verdict === "slower" ? "Slower" : "Faster"}: ${times}; time per ${per_sample ? "sample" : "iteration"} ${sign}${percent(Math.abs(change))} %`;
}

/** A sentence on the line that changed most in the direction of the total. Empty for another batch size, which changes every line. */
function cause({ before, after, verdict, lines }: DiffReport): string[] {
  if (verdict === "within noise" || before.batch_size !== after.batch_size) return [];
  const direction = verdict === "slower" ? 1 : -1;
  const grown = (line: LineChange): number => direction * (line.after_ms - line.before_ms);
  const most = lines.reduce<LineChange | null>((best, line) => (grown(line) > (best ? grown(best) : 0) ? line : best), null);
  if (!most) return [];
  const place = `${most.file.replace(/^.*[/\\]/, "")}:${most.line_after || most.line_before}`;
  const was = most.line_before ? `before ${ms(most.before_ms)}` : "a new line";
  const now = most.line_after ? `${ms(most.after_ms)} per iteration, ${was}` : `removed, before ${ms(most.before_ms)} per iteration`;
  return [`The line with the largest ${verdict === "slower" ? "increase" : "decrease"} is ${place}, \`${most.source.trim()}\`: ${now}.`, ""];
}

function ms(value: number): string {
  return `${figure(value)} ms`;
}

function figure(value: number): string {
  return value.toFixed(value < 10 ? 2 : 1);
}

function signed(difference: number, words: (size: number) => string): string {
  return `${difference < 0 ? "-" : "+"}${words(Math.abs(difference))}`;
}

function percent(share: number): string {
  return (100 * share).toFixed(share < 0.1 ? 1 : 0);
}

function when(created: string): string {
  return new Date(created).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
