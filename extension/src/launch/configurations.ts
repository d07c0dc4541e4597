/** Reads the run configurations of a script from `launch.json`. */

import * as path from "node:path";
import type { ProfileOptions } from "../protocol";
import { isLauncher, isLauncherModule, isModule, splitAtScript } from "./launcher";
import { UnfinishedLine, words } from "./words";

/** The options of a configuration that the server's command accepts. */
export type RunOptions = Pick<ProfileOptions, "args" | "env" | "cwd" | "module" | "launcher">;

/** A configuration that runs the script. */
export interface Configuration {
  readonly name: string;
  readonly options: RunOptions;
}

/** Values for the variables of a configuration. */
export interface Around {
  readonly script: string;
  readonly folder: string;
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const TYPES = new Set(["debugpy", "python"]);

/** The configurations that run this script, in order. Those that need input from the user are left out. */
export function configurationsOf(given: unknown, around: Around): Configuration[] {
  if (!Array.isArray(given)) return [];
  return given.flatMap((one: unknown) => {
    try {
      const options = optionsOf(one as Record<string, unknown> | null, around);
      const name = (one as { name?: unknown } | null)?.name;
      return options ? [{ name: typeof name === "string" ? name : "unnamed", options }] : [];
    } catch (error) {
      if (error instanceof Unresolvable || error instanceof UnfinishedLine) return [];
      throw error;
    }
  });
}

/** A variable that only the debugger can fill in, such as `${input:data}`. */
class Unresolvable extends Error {}

function optionsOf(given: Record<string, unknown> | null, around: Around): RunOptions | null {
  if (given === null || typeof given !== "object" || !TYPES.has(String(given.type)) || given.request !== "launch") return null;
  const filled = (value: string): string => withVariables(value, around);
  const cwd = typeof given.cwd === "string" && given.cwd ? path.resolve(around.folder, filled(given.cwd)) : null;
  const module = typeof given.module === "string" ? filled(given.module) : null;
  const program = module === null && typeof given.program === "string" ? filled(given.program) : null;
  const started = startedBy(module, program, argumentsOf(given.args).map(filled), cwd ?? around.folder, around);
  if (!started) return null;
  const variables = Object.entries(typeof given.env === "object" ? (given.env ?? {}) : {}).filter(([, value]) => typeof value === "string");
  return {
    ...started,
    ...(variables.length > 0 ? { env: Object.fromEntries(variables.map(([name, value]) => [name, filled(value as string)])) } : {}),
    ...(cwd !== null ? { cwd } : {}),
  };
}

function argumentsOf(given: unknown): string[] {
  if (Array.isArray(given)) return given.map(String);
  return typeof given === "string" ? words(given) : [];
}

/** The script with its arguments, started by itself, as a module or by a launcher. Null for another script. */
function startedBy(module: string | null, program: string | null, args: readonly string[], folder: string, around: Around): RunOptions | null {
  if (module !== null) {
    if (isLauncherModule(module)) return splitAtScript(["python", "-m", module, ...args], around.script, folder);
    return isModule(module, folder, around.script) ? { args, module } : null;
  }
  if (program === null) return null;
  if (isLauncher(program)) return splitAtScript([program, ...args], around.script, folder);
  return path.resolve(around.folder, program) === around.script ? { args } : null;
}

function withVariables(value: string, { script, folder, home, environment }: Around): string {
  const relative = path.relative(folder, script);
  const known: Readonly<Record<string, string>> = {
    file: script,
    fileBasename: path.basename(script),
    fileBasenameNoExtension: path.basename(script, path.extname(script)),
    fileDirname: path.dirname(script),
    fileWorkspaceFolder: folder,
    relativeFile: relative,
    relativeFileDirname: path.dirname(relative),
    workspaceFolder: folder,
    workspaceRoot: folder,
    workspaceFolderBasename: path.basename(folder),
    userHome: home,
    pathSeparator: path.sep,
    "/": path.sep,
  };
  return value.replace(/\$\{([^}]*)\}/g, (whole, name: string) => {
    if (name.startsWith("env:")) return environment[name.slice("env:".length)] ?? "";
    if (name.startsWith("workspaceFolder:") && name.endsWith(`:${path.basename(folder)}`)) return folder;
    const found = known[name];
    if (found === undefined) throw new Unresolvable(whole);
    return found;
  });
}
