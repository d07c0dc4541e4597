/** Finds the launcher in a command line, such as `torchrun --nproc-per-node 2 train.py --lr 1`. */

import * as path from "node:path";
import type { RunOptions } from "./configurations";

const PROGRAMS = /^(?:torchrun|accelerate|accelerate-launch|deepspeed)(?:\.exe)?$/;
/** Programs that a user types before a launcher. */
const BEFORE = /^(?:python(?:3(?:\.\d+)?)?|uv|poetry|pdm|pipenv|conda|mamba|micromamba|pixi)(?:\.exe)?$/;
const MODULES = new Set(["torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"]);

/** True for a program that starts training scripts. */
export function isLauncher(program: string): boolean {
  return PROGRAMS.test(path.basename(program));
}

/** True for a module that starts training scripts, as in `python -m torch.distributed.run`. */
export function isLauncherModule(module: string): boolean {
  return MODULES.has(module);
}

/** Split a command into the launcher, the script or its module, and its arguments. Null if it does not name the script. */
export function splitAtScript(words: readonly string[], script: string, folder: string): Pick<RunOptions, "launcher" | "module" | "args"> | null {
  for (const [at, word] of words.entries()) {
    const next = words[at + 1];
    if ((word === "-m" || word === "--module") && next !== undefined && isModule(next, folder, script)) return { launcher: words.slice(0, at), module: next, args: words.slice(at + 2) };
    if (path.resolve(folder, word) === script) return { launcher: words.slice(0, at), args: words.slice(at + 1) };
  }
  return null;
}

/** The options of a typed line: a launcher with its script, or only arguments. */
export function typedRun(words: readonly string[], script: string, folder: string): RunOptions {
  const first = path.basename(words[0] ?? "");
  const named = words.map((word) => (word === path.basename(script) ? script : word));
  const command = PROGRAMS.test(first) || BEFORE.test(first) ? splitAtScript(named, script, folder) : null;
  return command ? { module: null, ...command } : { args: words };
}

/** The whole command of a run that a launcher starts. Empty if the options name no launcher. */
export function commandOf(options: RunOptions | null, script: string): readonly string[] {
  const launcher = options?.launcher ?? [];
  if (launcher.length === 0) return [];
  return [...launcher, ...(options?.module ? ["-m", options.module] : [path.basename(script)]), ...(options?.args ?? [])];
}

/** True if a script is run as this module from the folder. */
export function isModule(module: string, folder: string, script: string): boolean {
  const stem = path.join(folder, ...module.split("."));
  return script === `${stem}.py` || script === path.join(stem, "__main__.py");
}
