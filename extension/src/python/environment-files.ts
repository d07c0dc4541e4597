/** What the files of a virtual environment say, so that one that will not do is never run. */

import * as fs from "node:fs";
import * as path from "node:path";
import { atLeast } from "./environment";

export const NO_TORCH = "has no PyTorch";
/** Part of every environment with setuptools, and leads nowhere. */
const HARMLESS = "distutils-precedence.pth";

/** Why an interpreter's environment will not do, as a sentence that names it; null where its files do not say so. */
export function unfitByFiles(python: string): string | null {
  const prefix = path.dirname(path.dirname(python));
  const settings = text(path.join(prefix, "pyvenv.cfg"));
  // Packages of other folders are not seen here.
  if (settings === null || process.env.PYTHONPATH) return null;
  const version = /^version(?:_info)?\s*=\s*(\d+\.\d+)/m.exec(settings)?.[1];
  if (version && !atLeast(version, 3, 10)) return `${python} is Python ${version}; Skyline needs 3.10 or newer`;
  if (/^include-system-site-packages\s*=\s*true/im.test(settings)) return null;
  const folders = [path.join(prefix, "Lib", "site-packages"), ...names(path.join(prefix, "lib")).map((name) => path.join(prefix, "lib", name, "site-packages"))];
  const found = folders.flatMap(names);
  // A package that was installed from its sources may lie anywhere.
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
