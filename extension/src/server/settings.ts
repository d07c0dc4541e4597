/** The settings that the user has set. Defaults are left out, because they would override pyproject.toml. */

import * as vscode from "vscode";
import { configuredInterpreter } from "../python/choose";
import type { Environment } from "../python/environment";

const SECTION = "skyline";

/** The settings of a script as a nested object, with the Python extension's interpreter if none is set. */
export function givenSettings(
  keys: readonly string[],
  scope: vscode.Uri | null,
  environment: Environment | null,
): Record<string, unknown> {
  const settings = vscode.workspace.getConfiguration(SECTION, scope ? { uri: scope, languageId: "python" } : null);
  const given: Record<string, unknown> = {};
  for (const key of keys) {
    if (isSet(settings.inspect(key))) put(given, key, settings.get(key));
  }
  const found = environment?.origin === "Python extension" ? environment.executable : null;
  const interpreter = configuredInterpreter(scope) ?? found;
  if (interpreter === null) delete given.interpreter;
  else given.interpreter = interpreter;
  return given;
}

function isSet(inspected: object | undefined): boolean {
  return Object.entries(inspected ?? {}).some(([name, value]) => /^(global|workspace).*Value$/.test(name) && value !== undefined);
}

function put(target: Record<string, unknown>, key: string, value: unknown): void {
  const [head = "", ...rest] = key.split(".");
  if (rest.length === 0) target[head] = value;
  else put((target[head] ??= {}) as Record<string, unknown>, rest.join("."), value);
}
