/** Lets the user choose the Python that runs scripts. */

import * as vscode from "vscode";
import type { Session } from "../server/session";

/** Ask for an interpreter, also with the Python extension's list if installed, and check it at once. */
export async function selectInterpreter(session: Session, script: vscode.Uri | null): Promise<void> {
  const settings = vscode.workspace.getConfiguration("skyline", script);
  const viaExtension = vscode.extensions.getExtension("ms-python.python") !== undefined;
  const options: (vscode.QuickPickItem & { readonly way: "extension" | "file" | "automatic" })[] = [
    ...(viaExtension ? [{ label: "Choose in the Python extension…", way: "extension" as const }] : []),
    { label: "Choose a file…", detail: "Sets skyline.interpreter for this workspace", way: "file" },
    { label: "Find it automatically", detail: "The Python extension's environment, the nearest .venv, then the PATH", way: "automatic" },
  ];
  const now = session.state.environment;
  const chosen = await vscode.window.showQuickPick(options, { title: "Python for training scripts", placeHolder: now ? `current: ${now.executable} (${now.origin})` : "none at the moment" });
  if (!chosen) return;
  const target = vscode.workspace.workspaceFolders ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  if (chosen.way === "extension") {
    await vscode.commands.executeCommand("python.setInterpreter");
  } else if (chosen.way === "automatic") {
    await settings.update("interpreter", undefined, target);
  } else {
    const [file] = (await vscode.window.showOpenDialog({ canSelectMany: false, title: "A Python interpreter with PyTorch" })) ?? [];
    if (!file) return;
    await settings.update("interpreter", file.fsPath, target);
  }
  await session.restart(false);
}
