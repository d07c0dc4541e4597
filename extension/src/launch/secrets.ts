/** Finds secrets in run options, by the names of options and variables and by the shape of values. */

import type { RunOptions } from "./configurations";

const NAME =
  /(?:secret|passw(?:or)?d|passphrase|credentials?|cookies?|login|(?:api|access|private|auth|account|wandb|comet|neptune|openai|anthropic|azure|aws|gcp|hf|hub)[-_]?key|(?:api|access|auth|bearer|refresh|session|hf|hub|github|gitlab|wandb|slack|bot)[-_]?token)$/i;
const OPTION = /^(?:token|auth|authorization|key|pass|pwd|pat|dsn|openai|anthropic)$/i;
const VARIABLE = /(?:^|_)(?:TOKEN|KEY|PAT|PWD|AUTH|DSN)$/i;
const SHAPE =
  /\b(?:hf_\w{16,}|gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abeprs]-[\w-]{10,}|(?:npm_|nvapi-|r8_|wandb_v1_)[\w-]{16,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,})|\bBearer\s+\S|:\/\/[^/\s@]+@/;
const HEX_KEY = /^[0-9a-f]{40}$/;
const COMMIT = /(?:commit|revision|rev|sha1?|hash)$/i;
const NUMBER_OR_PATH = /^[\d.,:e+-]+$|[/\\]/;

/** True if a command line or its environment contains a likely secret. */
export function holdsSecret(options: RunOptions): boolean {
  const variables = Object.entries(options.env ?? {});
  return [options.launcher ?? [], options.args ?? []].some((words) => words.some(secretArgument)) || variables.some(([name, value]) => NAME.test(name) || VARIABLE.test(name) || SHAPE.test(value));
}

function secretArgument(argument: string, index: number, all: readonly string[]): boolean {
  const name = /^--?([\w-]+)(?:=|$)/.exec(argument)?.[1] ?? "";
  if (NAME.test(name) || OPTION.test(name)) return true;
  const before = all[index - 1] ?? "";
  if (before === "-p" && !argument.startsWith("-") && !NUMBER_OR_PATH.test(argument)) return true;
  return SHAPE.test(argument) || (HEX_KEY.test(argument) && !COMMIT.test(before));
}
