/** The interpreter for a script, as the editor's settings, extensions and folders have it. */

import { existsSync } from "node:fs";
import * as vscode from "vscode";
import { atLeast, candidates, type Environment, probe, UnusableInterpreter } from "./environment";
import type { Trouble } from "../view/messages";

/** Either a usable environment, or the one message that says what is wrong and what mends it. */
export type Choice = { readonly environment: Environment } | { readonly trouble: Trouble };

const SELECT = { title: "Select Interpreter", command: "skyline.selectInterpreter" };

/** Choose and check; nothing is started here but the check itself. */
export async function chooseInterpreter(script: vscode.Uri | null, probeScript: string): Promise<Choice> {
  const found = candidates({
    configured: configuredInterpreter(script),
    active: await activeEnvironment(script),
    script: script?.fsPath ?? null,
    roots: (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath),
    trusted: vscode.workspace.isTrusted,
    platform: process.platform,
    exists: existsSync,
  });
  const reasons: string[] = [];
  let light: Environment | null = null;
  for (const candidate of found) {
    try {
      const environment = await probe(candidate, probeScript);
      if (!atLeast(environment.version, 3, 10)) {
        reasons.push(`${candidate.path} is Python ${environment.version}; Skyline needs 3.10 or newer`);
      } else if (environment.torch !== null || !vscode.workspace.isTrusted) {
        return { environment };
      } else {
        light ??= environment;
        reasons.push(`${candidate.path} (${candidate.origin}) has no PyTorch`);
      }
    } catch (error) {
      if (!(error instanceof UnusableInterpreter)) throw error;
      reasons.push(error.message);
    }
  }
  const what = light ? "No Python with PyTorch was found" : "No usable Python was found";
  return { trouble: { message: `${what}: ${reasons.join("; ")}.`, fix: SELECT } };
}

/** What the person has set, with `~` and `${workspaceFolder}` filled in. */
export function configuredInterpreter(script: vscode.Uri | null): string | null {
  const value = vscode.workspace.getConfiguration("skyline", script).get<string | null>("interpreter");
  if (!value) return null;
  const folder = script ? vscode.workspace.getWorkspaceFolder(script) : vscode.workspace.workspaceFolders?.[0];
  return value
    .replace(/^~(?=[/\\])/, process.env.HOME ?? "~")
    .replace(/\$\{workspaceFolder\}/g, folder?.uri.fsPath ?? "");
}

/** The part of the Python extension's interface that is used here; it need not be installed. */
interface PythonExtension {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: { readonly path: string }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function activeEnvironment(script: vscode.Uri | null): Promise<string | null> {
  const environments = (await pythonExtension())?.environments;
  if (!environments) return null;
  const active = environments.getActiveEnvironmentPath(script ?? undefined);
  const resolved = await environments.resolveEnvironment(active);
  return resolved?.executable.uri?.fsPath ?? null;
}

/** Called when the person chooses another environment in the Python extension, if that is there. */
export async function onActiveEnvironment(changed: () => void): Promise<vscode.Disposable | null> {
  return (await pythonExtension())?.environments?.onDidChangeActiveEnvironmentPath(changed) ?? null;
}

async function pythonExtension(): Promise<PythonExtension | null> {
  const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
  if (!extension) return null;
  try {
    return await extension.activate();
  } catch {
    return null;
  }
}
