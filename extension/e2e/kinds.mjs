// The kinds of scripts that people write: where the batch size lies decides how it is dragged.
import * as fs from "node:fs";
import * as path from "node:path";

const SCRIPTS = path.join(import.meta.dirname, "scripts");

/** `file` holds the number, behind `before` in its line; null: nothing holds it, but `lives` names the place. `loop` is the line of the training loop. */
const KINDS = [
  { name: "argparse", own: 32, file: "train.py", before: 'add_argument("--batch-size", type=int, default=', loop: "for x, y in loader" },
  { name: "dataclass", own: 16, file: "train.py", before: "Settings(batch_size=", loop: "for x, y in loader" },
  { name: "split", own: 24, file: "data.py", before: "BATCH_SIZE = ", loop: "for images, labels in batches()" },
  { name: "yaml", own: 16, file: "config.yaml", before: "batch_size: " },
  { name: "json", own: 20, file: "config.json", before: '"batch_size": ' },
  { name: "computed", own: 32, file: null, lives: "train.py:15" },
];

/** The size of a window that shows every line of each script: lenses are drawn only where they are in view. */
export const WHOLE = { width: 1280, height: 1000 };

/** For checks that look at no other batch size, number of threads or number format: trials of these are most of a run. */
export const NO_TRIALS = { "skyline.profile.budgetS": 0 };

export const WRITABLE = KINDS.filter(({ file }) => file?.endsWith(".py"));

/** The number is in a settings file. */
export const IN_SETTINGS = KINDS.filter(({ file }) => file !== null && !file.endsWith(".py"));

export const READ_ONLY = KINDS.filter(({ file }) => file === null);

export function kindNamed(name) {
  return KINDS.find((kind) => kind.name === name);
}

/**
 * A scenario of each kind whose number the code holds. Those of `always` run every time, the others with --all: the bars
 * are dragged in every kind each time, and these scenarios differ by kind in nothing but where the number is.
 */
export function ofEachKind(title, run, always) {
  return WRITABLE.map((kind) => ({ title: `${title} ${kind.name}`, run: (context) => run(context, kind), further: !always.includes(kind.name) }));
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
