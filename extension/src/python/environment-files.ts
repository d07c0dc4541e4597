/** Checks a virtual environment by its files, so that an unsuitable one is never run. */

import * as fs from "node:fs";
import * as path from "node:path";
import { atLeast } from "./environment";

export const NO_TORCH = "has no PyTorch";
/** Part of every environment with setuptools. Adds no packages. */
const HARMLESS = "distutils-precedence.pth";

/** The reason why an interpreter's environment is unsuitable, naming it. Null if its files show no reason. */
export function unfitByFiles(python: string): string | null {
  const prefix = path.dirname(path.dirname(python));
  const settings = text(path.join(prefix, "pyvenv.cfg"));
  // Packages in other folders cannot be checked here.
  if (settings === null || process.env.PYTHONPATH) return null;
  const version = /^version(?:_info)?\s*=\s*(\d+\.\d+)/m.exec(settings)?.[1];
  if (version && !atLeast(version, 3, 10)) return `${python} is Python ${version}; Skyline needs 3.10 or newer`;
  if (/^include-system-site-packages\s*=\s*true/im.test(settings)) return null;
  const folders = [path.join(prefix, "Lib", "site-packages"), ...names(path.join(prefix, "lib")).map((name) => path.join(prefix, "lib", name, "site-packages"))];
  const found = folders.flatMap(names);
  // An editable install may be in any folder.
  const elsewhere = found.some((name) => (name.endsWith(".pth") && name !== HARMLESS) || name.endsWith(".egg-link"));
  return found.length === 0 || elsewhere || found.includes("torch") ? null : `${python} ${NO_TORCH}`;
}

function text(file: string): string | null {
  try {
    return fs.readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

function names(folder: string): string[] {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}
