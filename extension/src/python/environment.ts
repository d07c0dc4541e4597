/** Finds the Python that runs the server and scripts, in a fixed order, and checks it before use. */

import { execFile } from "node:child_process";
import * as path from "node:path";

/** An interpreter and its origin in the user's words. */
export interface Candidate {
  readonly path: string;
  readonly origin: string;
}

/** An interpreter and the versions of its packages that Skyline needs. */
export interface Environment {
  readonly executable: string;
  readonly origin: string;
  readonly version: string;
  readonly prefix: string;
  readonly torch: string | null;
  readonly skyline: string | null;
  /** The reason why the bundled Skyline cannot run there, as text after the interpreter's name. Null if it can. */
  readonly misfit: string | null;
}

/** An interpreter cannot be used. The message names it and gives the reason. */
export class UnusableInterpreter extends Error {}

const PROBE_TIMEOUT_MS = 15_000;

/** Inputs of the choice, passed in so that the order can be tested without an editor. */
export interface Surroundings {
  readonly configured: string | null;
  readonly active: string | null;
  readonly script: string | null;
  readonly roots: readonly string[];
  readonly trusted: boolean;
  readonly platform: NodeJS.Platform;
  readonly exists: (path: string) => boolean;
}

/**
 * All candidates, best first: the setting, the Python extension's active environment, the nearest `.venv` at or above
 * the script, the `PATH`. If the workspace is not trusted, interpreters inside it are left out.
 */
export function candidates(around: Surroundings): Candidate[] {
  const found: Candidate[] = [];
  const outside = (file: string): boolean => around.trusted || !around.roots.some((root) => inside(root, file));
  if (around.configured && outside(around.configured)) {
    // The user has set an interpreter: try no other one.
    return [{ path: around.configured, origin: "setting skyline.interpreter" }];
  }
  if (around.active && outside(around.active)) found.push({ path: around.active, origin: "Python extension" });
  if (around.trusted) {
    const nearest = nearestEnvironment(around);
    if (nearest) found.push({ path: nearest, origin: path.basename(path.dirname(path.dirname(nearest))) });
  }
  found.push({ path: around.platform === "win32" ? "python" : "python3", origin: "PATH" });
  return found;
}

/** The interpreter of the first `.venv` or `venv` from the script's folder up to its workspace folder. */
export function nearestEnvironment(around: Surroundings): string | null {
  const root = around.roots.filter((one) => around.script !== null && inside(one, around.script)).sort(byLength)[0];
  const first = around.script === null ? around.roots[0] : path.dirname(around.script);
  for (let folder = first; folder; folder = path.dirname(folder)) {
    for (const name of [".venv", "venv"]) {
      const python =
        around.platform === "win32"
          ? path.join(folder, name, "Scripts", "python.exe")
          : path.join(folder, name, "bin", "python");
      if (around.exists(python)) return python;
    }
    if (folder === (root ?? first) || folder === path.dirname(folder)) return null;
  }
  return null;
}

/** The interpreter at a path, which may also be the folder of an environment. Null if there is none. */
export function interpreterAt(named: string, platform: NodeJS.Platform, isFile: (path: string) => boolean): string | null {
  const inFolder = platform === "win32" ? [path.join(named, "Scripts", "python.exe"), path.join(named, "python.exe")] : [path.join(named, "bin", "python")];
  return [named, ...inFolder].find(isFile) ?? null;
}

/** Run the probe script. Rejects with UnusableInterpreter if the interpreter cannot be run or does not answer. */
export function probe(candidate: Candidate, script: string, limitMs = PROBE_TIMEOUT_MS): Promise<Environment> {
  return new Promise((resolve, reject) => {
    // The process may ignore a weaker signal, and the promise would then never settle.
    execFile(candidate.path, [script], { timeout: limitMs, killSignal: "SIGKILL" }, (error, stdout) => {
      const line = stdout.trim().split("\n").at(-1) ?? "";
      try {
        if (error) throw new Error(error.message);
        const told = JSON.parse(line) as Omit<Environment, "origin">;
        resolve({ ...told, executable: told.executable || candidate.path, origin: candidate.origin });
      } catch {
        reject(new UnusableInterpreter(whyNot(candidate, error, limitMs)));
      }
    });
  });
}

/** True if a version such as `3.11.7` is at least this one. */
export function atLeast(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split(".").map(Number);
  return a > major || (a === major && b >= minor);
}

function whyNot(candidate: Candidate, error: (Error & { code?: unknown; killed?: boolean }) | null, limitMs: number): string {
  const named = `${candidate.path} (${candidate.origin})`;
  if (error?.code === "ENOENT") return `There is no Python at ${named}`;
  if (error?.code === "EACCES") return `${named} is not executable`;
  if (error?.killed) return `${named} did not answer within ${limitMs / 1000} s`;
  return `${named} is not a working Python`;
}

function inside(root: string, file: string): boolean {
  const relative = path.relative(root, file);
  return relative !== "" && !relative.startsWith("..") && !path.isAbsolute(relative);
}

function byLength(left: string, right: string): number {
  return right.length - left.length;
}
