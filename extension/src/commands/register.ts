/** Registers the commands of the palette. */

import * as vscode from "vscode";
import type { Desk } from "../scripts/desk";
import type { DiffView } from "../scripts/diff";
import type { Session } from "../server/session";
import { ViewProvider } from "../view/provider";
import { checkChange } from "./check";
import { comparePrevious } from "./compare";
import { exportProfile } from "./export";
import { compareGpus } from "./gpus";
import { selectInterpreter } from "./interpreter";
import { Reports } from "./report";
import { sweepSetting } from "./sweep";
import { showTrace } from "./trace";
import { OpenSource } from "../editor/source";
import { askArguments } from "../launch/ask";
import type { RememberedRuns } from "../launch/remembered";

const ISSUES = "https://github.com/skyline-profiler/skyline/issues/new";

export function registerCommands(
  session: Session,
  desk: Desk,
  diff: DiffView,
  runs: RememberedRuns,
  log: vscode.LogOutputChannel,
  toggleHeat: () => void,
): vscode.Disposable {
  const register = (name: string, run: (given?: unknown) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`skyline.${name}`, (given?: unknown) => said(() => run(given)));
  const reports = new Reports(session, desk);
  return vscode.Disposable.from(
    reports,
    register("profileScript", () => profileScript(desk)),
    register("profileWithArguments", () => profileWithArguments(desk, runs)),
    register("cancelRun", () => desk.cancel()),
    register("showLater", () => desk.showLater()),
    register("openReport", () => reports.open()),
    register("exportProfile", () => exportProfile(session, desk)),
    register("comparePrevious", () => comparePrevious(session, desk)),
    register("compareGpus", async () => (await ready(desk)) && compareGpus(desk)),
    register("checkChange", async () => (await ready(desk)) && checkChange(session, desk, runs)),
    register("sweepSetting", async () => (await ready(desk)) && sweepSetting(session, desk, runs)),
    register("showTrace", (given) => showTrace(desk, given)),
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

/** Run a command and show its error, if any. */
async function said(run: () => unknown): Promise<void> {
  try {
    await run();
  } catch (error) {
    void vscode.window.showErrorMessage(`Skyline: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function profileScript(desk: Desk): Promise<void> {
  if (!(await ready(desk))) return;
  await vscode.commands.executeCommand(`${ViewProvider.id}.focus`, { preserveFocus: true });
  await desk.run();
}

async function profileWithArguments(desk: Desk, runs: RememberedRuns): Promise<void> {
  if (!(await ready(desk))) return;
  const script = await desk.target();
  if (!script) return;
  const options = await askArguments(script, runs.of(script.toString()));
  if (options === undefined) return;
  await vscode.commands.executeCommand(`${ViewProvider.id}.focus`, { preserveFocus: true });
  await desk.run(options);
}

/** True if there is a script to run. Otherwise shows the reason and the next step. */
async function ready(desk: Desk): Promise<boolean> {
  if (!vscode.workspace.isTrusted) {
    const chosen = await vscode.window.showWarningMessage("Skyline runs nothing until you trust this workspace.", "Manage Trust");
    if (chosen) await vscode.commands.executeCommand("workbench.trust.manage");
    return false;
  }
  await desk.follow(OpenSource.active());
  if (desk.uri) return true;
  void vscode.window.showInformationMessage("Open a Python script or notebook that imports PyTorch, then profile it.");
  return false;
}
