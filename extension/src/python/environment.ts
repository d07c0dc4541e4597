/** Which Python serves and runs scripts: found in a fixed order, and looked at before anything is started. */

import { execFile } from "node:child_process";
import * as path from "node:path";

/** Where an interpreter comes from, as the person would say it. */
export interface Candidate {
  readonly path: string;
  readonly origin: string;
}

/** What an interpreter has that Skyline needs. */
export interface Environment {
  readonly executable: string;
  readonly origin: string;
  readonly version: string;
  readonly prefix: string;
  readonly torch: string | null;
  readonly skyline: string | null;
  /** Why the Skyline of this extension cannot run there, after the interpreter's name; null where it can. */
  readonly misfit: string | null;
}

/** Why an interpreter cannot be used; the message names it. */
export class UnusableInterpreter extends Error {}

const PROBE_TIMEOUT_MS = 15_000;

/** What the choice depends on; given, so that the order can be tested without an editor. */
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
 * the script, the `PATH`. In a workspace that is not trusted none that lies in it.
 */
export function candidates(around: Surroundings): Candidate[] {
  const found: Candidate[] = [];
  const outside = (file: string): boolean => around.trusted || !around.roots.some((root) => inside(root, file));
  if (around.configured && outside(around.configured)) {
    // The person has named one: nothing else is tried in its place.
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

/** The interpreter that a path names, itself or as the folder of its environment; null: there is none. */
export function interpreterAt(named: string, platform: NodeJS.Platform, isFile: (path: string) => boolean): string | null {
  const inFolder = platform === "win32" ? [path.join(named, "Scripts", "python.exe"), path.join(named, "python.exe")] : [path.join(named, "bin", "python")];
  return [named, ...inFolder].find(isFile) ?? null;
}

/** Ask an interpreter what it has; raises UnusableInterpreter where it cannot be run or does not answer. */
export function probe(candidate: Candidate, script: string, limitMs = PROBE_TIMEOUT_MS): Promise<Environment> {
  return new Promise((resolve, reject) => {
    // A gentler signal may be ignored, and then there would be no answer at all.
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

/** Whether a version such as `3.11.7` is at least this one. */
export function atLeast(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split(".").map(Number);
  return a > major || (a === major && b >= minor);
}

function whyNot(candidate: Candidate, error: (Error & { code?: unknown; killed?: boolean }) | null, limitMs: number): string {
  const named = `${candidate.path} (${candidate.origin})`;
  if (error?.code === "ENOENT") return `There is no Python at ${named}`;
  if (error?.code === "EACCES") return `${named} may not be executed`;
  if (error?.killed) return `${named} did not answer within ${limitMs / 1000} s`;
  return `${named} is no Python that works`;
}

function inside(root: string, file: string): boolean {
  const relative = path.relative(root, file);
  return relative !== "" && !relative.startsWith("..") && !path.isAbsolute(relative);
}

function byLength(left: string, right: string): number {
  return right.length - left.length;
}
