/** Checks the script against another revision of its git repository: `skyline check` in a terminal. */

import { execFile } from "node:child_process";
import * as path from "node:path";
import { promisify } from "node:util";
import * as vscode from "vscode";
import type { RememberedRuns } from "../launch/remembered";
import type { Desk } from "../scripts/desk";
import type { Session } from "../server/session";
import { skylineTask } from "../tasks";

const MOST_BRANCHES = 12;
const GIT_LIMIT_MS = 10_000;

export async function checkChange(session: Session, desk: Desk, runs: RememberedRuns): Promise<void> {
  const script = await desk.target();
  if (!script) return;
  const name = path.basename(script.fsPath);
  const branches = await branchesOf(path.dirname(script.fsPath));
  if (!branches) throw new Error(`${name} is not in a git repository, so there is no revision to compare it with.`);
  const base = await askRevision(name, branches);
  if (!base) return;
  const folder = vscode.workspace.getWorkspaceFolder(script);
  const args = runs.of(script.toString())?.args ?? vscode.workspace.getConfiguration("skyline", script).get<string[]>("profile.args", []);
  const task = await skylineTask(session, { type: "skyline", script: folder ? vscode.workspace.asRelativePath(script, false) : script.fsPath, base, args }, folder);
  if (!task) return;
  task.presentationOptions = { echo: false, clear: true, showReuseMessage: false };
  await vscode.tasks.executeTask(task);
}

async function askRevision(name: string, branches: readonly string[]): Promise<string | undefined> {
  const typed: vscode.QuickPickItem = { label: "$(edit) Type a Revision…", alwaysShow: true };
  const last = { label: "HEAD", description: "the last commit: checks uncommitted changes" };
  const rows = [last, { label: "HEAD~1", description: "the commit before the last one" }, ...branches.map((label) => ({ label })), typed];
  const chosen = await vscode.window.showQuickPick<vscode.QuickPickItem>(rows, { title: `Revision to compare the speed of ${name} with`, placeHolder: "Both versions run alternately, for a few minutes" });
  if (chosen !== typed) return chosen?.label;
  return (await vscode.window.showInputBox({ title: "Revision to compare with", placeHolder: "v1.2 or a commit" }))?.trim();
}

/** The branches of a repository, the latest commit first. Null outside a repository. */
export async function branchesOf(folder: string): Promise<string[] | null> {
  const format = ["for-each-ref", "--format=%(refname:lstrip=2)", "--sort=-committerdate", `--count=${MOST_BRANCHES}`, "refs/heads", "refs/remotes"];
  try {
    const { stdout } = await promisify(execFile)("git", format, { cwd: folder, timeout: GIT_LIMIT_MS });
    return stdout.split("\n").filter((name) => name !== "" && !name.endsWith("/HEAD"));
  } catch {
    return null;
  }
}
