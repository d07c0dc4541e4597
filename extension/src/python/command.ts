/** The command line that runs Skyline in an environment. It can be copied into a terminal. */

import * as path from "node:path";
import type { Environment } from "./environment";

export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

export type ImportStrategy = "fromEnvironment" | "useBundled";

/** The command line for `skyline ARGS` with this environment's interpreter. */
export function skylineCommand(
  environment: Environment,
  bundled: string,
  strategy: ImportStrategy,
  ...args: string[]
): CommandLine {
  const flags = strategy === "useBundled" ? ["--bundled"] : [];
  return { command: environment.executable, args: [path.join(bundled, "run_skyline.py"), ...flags, ...args] };
}

/** The command line as a shell command. */
export function asTyped(line: CommandLine): string {
  return [line.command, ...line.args].map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", `'\\''`)}'`)).join(" ");
}
