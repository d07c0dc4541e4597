/** Asks the user for a script and for its arguments. */

import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { configurationsOf, type RunOptions } from "./configurations";
import { commandOf, typedRun } from "./launcher";
import { asLine, UnfinishedLine, words } from "./words";

interface Choice extends vscode.QuickPickItem {
  /** Undefined: the user types the arguments. */
  readonly options?: RunOptions;
}

/** Ask for a script's arguments. Undefined if the user cancelled, null to use those of the settings again. */
export async function askArguments(script: vscode.Uri, last: RunOptions | null): Promise<RunOptions | null | undefined> {
  const name = path.basename(script.fsPath);
  const choices = choicesOf(script);
  if (choices.length > 0) {
    const typed: Choice = { label: "$(edit) Type Arguments…", alwaysShow: true };
    const chosen = await vscode.window.showQuickPick([...choices, typed], { title: `Arguments for ${name}`, placeHolder: "From launch.json, or typed" });
    if (!chosen) return undefined;
    if (chosen.options) return chosen.options;
  }
  const line = await vscode.window.showInputBox({
    title: `Arguments for ${name}`,
    prompt: `The arguments after the script's name, or the whole command: torchrun --nproc-per-node 2 ${name}. Leave empty to use the settings.`,
    placeHolder: "--data data/train --epochs 1",
    value: asLine(last?.launcher?.length ? commandOf(last, script.fsPath) : (last?.args ?? [])),
    ignoreFocusOut: true,
    validateInput: (text) => {
      try {
        words(text);
        return null;
      } catch (error) {
        if (error instanceof UnfinishedLine) return error.message;
        throw error;
      }
    },
  });
  if (line === undefined) return undefined;
  return line.trim() === "" ? null : { ...last, launcher: null, ...typedRun(words(line), script.fsPath, folderOf(script)) };
}

/** Ask for the script to profile a module with. */
export function askScript(module: vscode.Uri, scripts: readonly vscode.Uri[]): Thenable<vscode.Uri | undefined> {
  const rows = scripts.map((uri) => ({ label: path.basename(uri.fsPath), description: vscode.workspace.asRelativePath(uri), uri }));
  const title = `${path.basename(module.fsPath)} has no training loop of its own. Which script do you want to profile?`;
  return vscode.window.showQuickPick(rows, { title, placeHolder: "Scripts that train with it, most likely first" }).then((row) => row?.uri);
}

function choicesOf(script: vscode.Uri): Choice[] {
  const folder = folderOf(script);
  const given = vscode.workspace.getConfiguration("launch", script).get("configurations");
  const around = { script: script.fsPath, folder, home: os.homedir(), environment: process.env };
  return configurationsOf(given, around).map(({ name, options }) => ({
    label: `$(debug-alt) ${name}`,
    description: asLine(options.launcher ? commandOf(options, script.fsPath) : (options.args ?? [])),
    detail: [options.module && !options.launcher ? `as module ${options.module}` : "", options.cwd ? `in ${options.cwd}` : "", ...Object.entries(options.env ?? {}).map(([key, value]) => `${key}=${value}`)].filter(Boolean).join(" · "),
    // launch.json determines how the script is started, so the launcher of the settings does not apply.
    options: { ...options, launcher: options.launcher ?? [] },
  }));
}

function folderOf(script: vscode.Uri): string {
  return vscode.workspace.getWorkspaceFolder(script)?.uri.fsPath ?? path.dirname(script.fsPath);
}
