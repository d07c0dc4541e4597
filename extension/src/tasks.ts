/** The task type `skyline`: profiles a script in the terminal, checks it against a revision, or sweeps a setting. The editor also shows the profile. */

import * as vscode from "vscode";
import { importsTorch } from "./editor/training-file";
import type { Session } from "./server/session";

export interface Definition extends vscode.TaskDefinition {
  readonly script: string;
  readonly args?: readonly string[];
  readonly gpu?: string;
  /** A git revision: check the script against it instead of profiling it. */
  readonly base?: string;
  /** A setting and its values, `hidden=64:1024:64`: sweep it instead of profiling the script. */
  readonly vary?: string;
  /** The file to write the page of a sweep to. */
  readonly page?: string;
}

export class TaskProvider implements vscode.TaskProvider {
  constructor(private readonly session: Session) {}

  async provideTasks(): Promise<vscode.Task[]> {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId !== "python" || !importsTorch(document.getText())) return [];
    const script = vscode.workspace.asRelativePath(document.uri, false);
    const task = await skylineTask(this.session, { type: "skyline", script }, vscode.workspace.getWorkspaceFolder(document.uri));
    return task ? [task] : [];
  }

  resolveTask(task: vscode.Task): Promise<vscode.Task | undefined> {
    const folder = typeof task.scope === "object" ? task.scope : vscode.workspace.workspaceFolders?.[0];
    return skylineTask(this.session, task.definition as Definition, folder);
  }
}

/** The task of a definition. Undefined in a workspace that is not trusted, and without a usable interpreter. */
export async function skylineTask(session: Session, definition: Definition, folder: vscode.WorkspaceFolder | undefined): Promise<vscode.Task | undefined> {
  if (!vscode.workspace.isTrusted) return undefined;
  const script = folder ? vscode.Uri.joinPath(folder.uri, definition.script) : null;
  const { base, vary } = definition;
  const line = await session.commandLine(script, ...wordsOf(definition), definition.script, ...(definition.args ?? []));
  if (!line) return undefined;
  const run = new vscode.ProcessExecution(line.command, [...line.args], folder ? { cwd: folder.uri.fsPath } : {});
  const name = base ? `check ${definition.script} against ${base}` : vary ? `sweep ${definition.script} over ${vary}` : `profile ${definition.script}`;
  return new vscode.Task(definition, folder ?? vscode.TaskScope.Workspace, name, "skyline", run);
}

/** The command with its options, before the script. */
function wordsOf({ base, gpu, page, vary }: Definition): string[] {
  if (base) return ["check", "--base", base];
  const on = gpu ? ["--gpu", gpu] : [];
  if (!vary) return ["profile", ...on];
  return ["sweep", "--vary", vary, ...on, ...(page ? ["--html", page] : [])];
}
