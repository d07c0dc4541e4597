// The kinds of scripts in the tests. The place of the batch size differs and determines the result of a drag.
import * as fs from "node:fs";
import * as path from "node:path";

const SCRIPTS = path.join(import.meta.dirname, "scripts");

/**
 * `file` contains the batch size, which follows `before` in its line. Null: the code computes the batch size
 * at `lives`. `loop` is the line of the training loop.
 */
const KINDS = [
  { name: "argparse", own: 32, file: "train.py", before: 'add_argument("--batch-size", type=int, default=', loop: "for x, y in loader" },
  { name: "dataclass", own: 16, file: "train.py", before: "Settings(batch_size=", loop: "for x, y in loader" },
  { name: "split", own: 24, file: "data.py", before: "BATCH_SIZE = ", loop: "for images, labels in batches()" },
  { name: "yaml", own: 16, file: "config.yaml", before: "batch_size: " },
  { name: "json", own: 20, file: "config.json", before: '"batch_size": ' },
  { name: "computed", own: 32, file: null, lives: "train.py:15" },
];

/** The size of a window that shows every line of each script. The editor draws only the lenses in view. */
export const WHOLE = { width: 1280, height: 1000 };

/**
 * Settings without trials of other batch sizes, thread counts and number formats. Trials take most of a run.
 */
export const NO_TRIALS = { "skyline.profile.budgetS": 0 };

export const WRITABLE = KINDS.filter(({ file }) => file?.endsWith(".py"));

/** The kinds with the batch size in a settings file. */
export const IN_SETTINGS = KINDS.filter(({ file }) => file !== null && !file.endsWith(".py"));

export const READ_ONLY = KINDS.filter(({ file }) => file === null);

export function kindNamed(name) {
  return KINDS.find((kind) => kind.name === name);
}

/**
 * A scenario for each kind with the batch size in the code. The kinds in `always` run every time, the others
 * with --all. The scenarios of one title differ only in the place of the batch size, and the drag scenarios
 * always run all kinds.
 */
export function ofEachKind(title, run, always) {
  return WRITABLE.map((kind) => ({ title: `${title} ${kind.name}`, run: (context) => run(context, kind), further: !always.includes(kind.name) }));
}

/** The files of a kind, by name. */
export function filesOf(kind) {
  const folder = path.join(SCRIPTS, kind.name);
  return Object.fromEntries(fs.readdirSync(folder).map((name) => [name, fs.readFileSync(path.join(folder, name), "utf8")]));
}

/** The batch size in the text of `kind.file`. Null if the text has none. */
export function numberIn(kind, text) {
  const at = text.indexOf(kind.before);
  return at < 0 ? null : Number.parseInt(text.slice(at + kind.before.length), 10);
}
