/** Compares the profile shown with the previous one: a text page with the figures and a diff of the code. */

import * as vscode from "vscode";
import { type ComparisonReport, METHODS } from "../protocol";
import type { Desk } from "../scripts/desk";
import type { Session } from "../server/session";

const MOST_LINES = 12;

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
  const { before, after, verdict } = profiles;
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 1)} ms`;
  const sides = (was: number, is: number): string => `${ms(was)} | ${ms(is)} | ${is >= was ? "+" : ""}${(is - was).toFixed(2)} ms`;
  const moved = [...profiles.lines].sort((a, b) => Math.abs(b.after_ms - b.before_ms) - Math.abs(a.after_ms - a.before_ms));
  return [
    `# ${verdict === "within noise" ? "No difference beyond the noise" : `${verdict} by ${(100 * Math.abs(profiles.change)).toFixed(1)} %`}`,
    "",
    `| | before (${when(before.created)}) | now (${when(after.created)}) | change |`,
    "|---|---:|---:|---:|",
    `| iteration | ${sides(before.iteration_ms.value, after.iteration_ms.value)} |`,
    `| batch size | ${before.batch_size ?? "?"} | ${after.batch_size ?? "?"} | |`,
    `| peak memory | ${mb(before.peak_bytes.value)} | ${mb(after.peak_bytes.value)} | ${mb(profiles.peak_change_bytes)} |`,
    ...profiles.phases.map((phase) => `| ${phase.phase} | ${sides(phase.before_ms, phase.after_ms)} |`),
    "",
    "## Lines with the largest changes",
    "",
    "| line | before | now | change |",
    "|---|---:|---:|---:|",
    ...moved.slice(0, MOST_LINES).map((line) => `| \`${line.source.replaceAll("|", "\\|")}\` | ${sides(line.before_ms, line.after_ms)} |`),
    "",
    ...(source ? ["## The code", "", "```diff", source.trimEnd(), "```", ""] : ["The code is the same.", ""]),
    ...profiles.notes.map((note) => `- ${note}`),
  ].join("\n");
}

function when(created: string): string {
  return new Date(created).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function mb(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
