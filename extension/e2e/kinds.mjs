// The kinds of scripts that people write: where the batch size lies decides how it is dragged.
import * as fs from "node:fs";
import * as path from "node:path";

const SCRIPTS = path.join(import.meta.dirname, "scripts");

/** `file` holds the number, behind `before` in its line; null: no code holds it, but `lives` names the place. */
const KINDS = [
  { name: "argparse", own: 32, file: "train.py", before: 'add_argument("--batch-size", type=int, default=' },
  { name: "dataclass", own: 16, file: "train.py", before: "Settings(batch_size=" },
  { name: "split", own: 24, file: "data.py", before: "BATCH_SIZE = " },
  { name: "yaml", own: 16, file: null, lives: "config.yaml, line 5" },
  { name: "json", own: 20, file: null, lives: "config.json, line 6" },
  { name: "computed", own: 32, file: null, lives: "train.py:15" },
];

export const WRITABLE = KINDS.filter(({ file }) => file !== null);

export const READ_ONLY = KINDS.filter(({ file }) => file === null);

export function kindNamed(name) {
  return KINDS.find((kind) => kind.name === name);
}

/** The files of a kind, by name. */
export function filesOf(kind) {
  const folder = path.join(SCRIPTS, kind.name);
  return Object.fromEntries(fs.readdirSync(folder).map((name) => [name, fs.readFileSync(path.join(folder, name), "utf8")]));
}

/** The number in a text of the file that holds it. */
export function numberIn(kind, text) {
  const at = text.indexOf(kind.before);
  return at < 0 ? null : Number.parseInt(text.slice(at + kind.before.length), 10);
}
