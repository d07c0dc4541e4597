/** The commands of the palette. */

import * as vscode from "vscode";
import type { Desk } from "../scripts/desk";
import type { DiffView } from "../scripts/diff";
import { METHODS } from "../protocol";
import type { Session } from "../server/session";
import { ViewProvider } from "../view/provider";
import { comparePrevious } from "./compare";
import { exportProfile } from "./export";
import { selectInterpreter } from "./interpreter";

const ISSUES = "https://github.com/skyline-profiler/skyline/issues/new";

export function registerCommands(
  session: Session,
  desk: Desk,
  diff: DiffView,
  log: vscode.LogOutputChannel,
  toggleHeat: () => void,
): vscode.Disposable {
  const register = (name: string, run: () => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`skyline.${name}`, () => said(run));
  return vscode.Disposable.from(
    register("profileScript", () => profileScript(desk)),
    register("cancelRun", () => desk.cancel()),
    register("openReport", () => openReport(session, desk)),
    register("exportProfile", () => exportProfile(session, desk)),
    register("comparePrevious", () => comparePrevious(session, desk)),
    register("showView", () => vscode.commands.executeCommand(`${ViewProvider.id}.focus`)),
    register("showChanges", () => diff.show()),
    register("takeBack", () => desk.takeBack()),
    register("toggleHeat", toggleHeat),
    register("selectInterpreter", () => selectInterpreter(session, desk.uri)),
    register("restartServer", () => session.restart(true)),
    register("showLogs", () => log.show()),
    register("reportIssue", () => vscode.env.openExternal(vscode.Uri.parse(ISSUES))),
  );
}

/** Run a command; what it raises is shown, once. */
async function said(run: () => unknown): Promise<void> {
  try {
    await run();
  } catch (error) {
    void vscode.window.showErrorMessage(`Skyline: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function profileScript(desk: Desk): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    const chosen = await vscode.window.showWarningMessage("Skyline runs nothing until you trust this workspace.", "Manage Trust");
    if (chosen) await vscode.commands.executeCommand("workbench.trust.manage");
    return;
  }
  await desk.follow(vscode.window.activeTextEditor?.document);
  if (!desk.uri) {
    void vscode.window.showInformationMessage("Open a Python script that imports PyTorch, and profile that.");
    return;
  }
  await vscode.commands.executeCommand(`${ViewProvider.id}.focus`, { preserveFocus: true });
  await desk.run();
}

async function openReport(session: Session, desk: Desk): Promise<void> {
  if (!desk.uri || !desk.profile) throw new Error("There is no profile yet: profile a training script first.");
  await session.connection?.execute(METHODS.commandShowReport, desk.uri.toString());
}
