/** Exports a profile for another viewer. */

import * as vscode from "vscode";
import type { Desk } from "../scripts/desk";
import { METHODS } from "../protocol";
import type { Session } from "../server/session";

interface Format extends vscode.QuickPickItem {
  readonly format: "perfetto" | "speedscope" | "html" | "json";
  readonly suffix: string;
}

const FORMATS: readonly Format[] = [
  { label: "Perfetto", detail: "The timeline, for ui.perfetto.dev and chrome://tracing", format: "perfetto", suffix: ".perfetto.json.gz" },
  { label: "speedscope", detail: "Flame graphs, for speedscope.app", format: "speedscope", suffix: ".speedscope.json" },
  { label: "HTML", detail: "The report as one self-contained page", format: "html", suffix: ".html" },
  { label: "JSON", detail: "All figures, for other programs", format: "json", suffix: ".json" },
];

export async function exportProfile(session: Session, desk: Desk): Promise<void> {
  const { uri } = desk;
  if (!uri || !desk.profile) throw new Error("There is no profile yet: profile a training script first.");
  const chosen = await vscode.window.showQuickPick(FORMATS, { title: "Export the profile as" });
  if (!chosen) return;
  const stem = uri.path.replace(/\.py$/, "");
  const target = await vscode.window.showSaveDialog({ defaultUri: uri.with({ path: `${stem}.skyline${chosen.suffix}` }), title: `Export for ${chosen.label}` });
  if (!target) return;
  await session.connection?.execute(METHODS.commandExport, uri.toString(), { format: chosen.format, path: target.fsPath });
  await reveal(target);
}

/** Write the timeline of a row of the plan for Perfetto. */
export async function exportRow(desk: Desk, row: number): Promise<void> {
  const { uri } = desk;
  if (!uri) return;
  const stem = uri.path.replace(/\.py$/, "");
  const target = await vscode.window.showSaveDialog({ defaultUri: uri.with({ path: `${stem}.plan-${row}.perfetto.json.gz` }), title: "Export for Perfetto" });
  if (!target) return;
  await desk.writeRow(row, target.fsPath);
  await reveal(target);
}

async function reveal(target: vscode.Uri): Promise<void> {
  const open = await vscode.window.showInformationMessage(`Skyline: written to ${target.fsPath}`, "Reveal");
  if (open) await vscode.commands.executeCommand("revealInExplorer", target);
}
