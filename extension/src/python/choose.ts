/** Chooses the interpreter for a script from settings, the Python extension and folders. */

import { existsSync, statSync } from "node:fs";
import * as vscode from "vscode";
import { within } from "../time-limit";
import { atLeast, candidates, type Environment, interpreterAt, probe, UnusableInterpreter } from "./environment";
import { NO_TORCH, unfitByFiles } from "./environment-files";
import { misfitOf } from "./fitness";
import type { Trouble } from "../view/messages";

/** Either a usable environment, or a message with the problem and its fix. */
export type Choice = { readonly environment: Environment } | { readonly trouble: Trouble };

/** Time limit: activating the Python extension takes seconds on a busy machine. */
const ACTIVATION_LIMIT_MS = 10_000;
const ANSWER_LIMIT_MS = 5_000;
const SELECT = { title: "Select Interpreter", command: "skyline.selectInterpreter" };

/** Choose an interpreter and check it. Starts no process except this check. */
export async function chooseInterpreter(script: vscode.Uri | null, probeScript: string, log: vscode.LogOutputChannel): Promise<Choice> {
  const configured = configuredInterpreter(script);
  const found = candidates({
    configured,
    // An interpreter in the settings does not need the Python extension.
    active: configured ? null : await activeEnvironment(script, log),
    script: script?.fsPath ?? null,
    roots: (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath),
    trusted: vscode.workspace.isTrusted,
    platform: process.platform,
    exists: existsSync,
  });
  const reasons: string[] = [];
  let light = false;
  for (const candidate of found) {
    const unfit = vscode.workspace.isTrusted ? unfitByFiles(candidate.path) : null;
    if (unfit !== null) {
      reasons.push(unfit);
      light ||= unfit.endsWith(NO_TORCH);
      continue;
    }
    try {
      const environment = await probe(candidate, probeScript);
      if (!atLeast(environment.version, 3, 10)) {
        reasons.push(`${candidate.path} is Python ${environment.version}; Skyline needs 3.10 or newer`);
      } else if (environment.torch !== null || !vscode.workspace.isTrusted) {
        const misfit = misfitOf(environment, vscode.workspace.getConfiguration("skyline").get("importStrategy", "fromEnvironment"));
        if (misfit === null) return { environment };
        reasons.push(misfit);
      } else {
        light = true;
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

/** The interpreter in the settings, with `~` and `${workspaceFolder}` expanded. */
export function configuredInterpreter(script: vscode.Uri | null): string | null {
  const value = vscode.workspace.getConfiguration("skyline", script).get<string | null>("interpreter");
  if (!value) return null;
  const folder = script ? vscode.workspace.getWorkspaceFolder(script) : vscode.workspace.workspaceFolders?.[0];
  return value
    .replace(/^~(?=[/\\])/, process.env.HOME ?? "~")
    .replace(/\$\{workspaceFolder\}/g, folder?.uri.fsPath ?? "");
}

/** The part of the Python extension's API that is used here. The extension may be missing. */
interface PythonExtension {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: { readonly path: string }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The Python extension's interpreter. Null if the extension is missing, has none or does not answer in time. */
async function activeEnvironment(script: vscode.Uri | null, log: vscode.LogOutputChannel): Promise<string | null> {
  let active: { readonly path: string } | null = null;
  try {
    const extension = await within(ACTIVATION_LIMIT_MS, "the Python extension", pythonExtension());
    if (!extension?.environments) return null;
    active = extension.environments.getActiveEnvironmentPath(script ?? undefined);
    const resolved = await within(ANSWER_LIMIT_MS, "the Python extension", extension.environments.resolveEnvironment(active));
    return resolved?.executable.uri?.fsPath ?? null;
  } catch (error) {
    log.warn(`the Python extension did not report its environment: ${reason(error)}`);
    return active ? interpreterAt(active.path, process.platform, isFile) : null;
  }
}

/**
 * Calls `changed` when the user chooses another environment in the Python extension, and once if the extension was too
  * late for the first choice. Nothing waits for this, so it has no time limit.
 */
export async function onActiveEnvironment(changed: () => void, log: vscode.LogOutputChannel): Promise<vscode.Disposable | null> {
  const asked = Date.now();
  try {
    const environments = (await pythonExtension())?.environments;
    const disposable = environments?.onDidChangeActiveEnvironmentPath(changed) ?? null;
    if (disposable && Date.now() - asked > ACTIVATION_LIMIT_MS) changed();
    return disposable;
  } catch (error) {
    log.warn(`cannot follow environment changes of the Python extension: ${reason(error)}`);
    return null;
  }
}

async function pythonExtension(): Promise<PythonExtension | null> {
  const extension = vscode.extensions.getExtension<PythonExtension | undefined>("ms-python.python");
  return (await extension?.activate()) ?? null;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
