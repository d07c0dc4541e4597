/** The task type `skyline`: profiles a script in the terminal. The editor shows the result too. */

import * as vscode from "vscode";
import { importsTorch } from "./editor/training-file";
import type { Session } from "./server/session";

interface Definition extends vscode.TaskDefinition {
  readonly script: string;
  readonly args?: readonly string[];
  readonly gpu?: string;
}

export class TaskProvider implements vscode.TaskProvider {
  constructor(private readonly session: Session) {}

  async provideTasks(): Promise<vscode.Task[]> {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId !== "python" || !importsTorch(document.getText())) return [];
    const script = vscode.workspace.asRelativePath(document.uri, false);
    const task = await this.#task({ type: "skyline", script }, vscode.workspace.getWorkspaceFolder(document.uri));
    return task ? [task] : [];
  }

  resolveTask(task: vscode.Task): Promise<vscode.Task | undefined> {
    const folder = typeof task.scope === "object" ? task.scope : vscode.workspace.workspaceFolders?.[0];
    return this.#task(task.definition as Definition, folder);
  }

  async #task(definition: Definition, folder: vscode.WorkspaceFolder | undefined): Promise<vscode.Task | undefined> {
    if (!vscode.workspace.isTrusted) return undefined;
    const script = folder ? vscode.Uri.joinPath(folder.uri, definition.script) : null;
    const target = definition.gpu ? ["--gpu", definition.gpu] : [];
    const line = await this.session.commandLine(script, "profile", ...target, definition.script, ...(definition.args ?? []));
    if (!line) return undefined;
    const run = new vscode.ProcessExecution(line.command, [...line.args], folder ? { cwd: folder.uri.fsPath } : {});
    return new vscode.Task(definition, folder ?? vscode.TaskScope.Workspace, `profile ${definition.script}`, "skyline", run);
  }
}
