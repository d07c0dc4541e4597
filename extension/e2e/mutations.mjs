// Checks that the tests notice the faults they test for: reverts each fix by one replacement and runs its
// check, which must fail.
//
//   node e2e/mutations.mjs --python PYTHON [--level unit|e2e] [--only 1,7b] [--vsix FILE]
//
// The replacement is made in the working tree and reverted afterwards, so the file must be committed. The
// results of all runs are in benchmarks/results/editor_mutations.json, and as a table in editor_mutations.md.
// Exits with 1 if a check passes although its fix is reverted, or does not run.
import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { parseArgs } from "node:util";
import { MUTATIONS, POINTS } from "./mutations/list.mjs";

const EXTENSION = path.resolve(import.meta.dirname, "..");
const REPOSITORY = path.dirname(EXTENSION);
const RESULTS = path.join(REPOSITORY, "benchmarks/results/editor_mutations.json");
const TIMEOUT_MS = { unit: 600_000, e2e: 1_500_000 };

const { values: options } = parseArgs({
  options: { python: { type: "string" }, level: { type: "string" }, only: { type: "string" }, vsix: { type: "string" } },
});
const python = path.resolve(options.python ?? path.join(REPOSITORY, ".venv/bin/python"));
const wanted = options.only?.split(",");

/** The command that runs a check, and its working directory. */
function commandOf(check) {
  // No reruns of failed tests: a detected fault would otherwise fail three times.
  if (check.pytest) return { command: python, args: ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "-o", "addopts=--import-mode=importlib", ...check.pytest], cwd: REPOSITORY };
  if (check.vitest) return { command: "npx", args: ["vitest", "run", check.vitest, ...(check.named ? ["-t", check.named] : [])], cwd: EXTENSION };
  return { command: process.execPath, args: ["e2e/run.mjs", "--vsix", vsix(), "--python", python, "--only", check.e2e], cwd: EXTENSION };
}

/** Build the package with the current mutation. */
function vsix() {
  const file = path.join(os.tmpdir(), `skyline-mutation-${process.pid}.vsix`);
  execFileSync("npm", ["run", "-s", "build"], { cwd: EXTENSION, stdio: "pipe" });
  execFileSync("npm", ["run", "-s", "package", "--", "--out", file], { cwd: EXTENSION, stdio: "pipe" });
  return file;
}

/** Run a check. The result has its outcome and the line with the failure. */
function ran(check, level) {
  const { command, args, cwd } = commandOf(check);
  const began = Date.now();
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8", timeout: TIMEOUT_MS[level], env: { ...process.env, NO_COLOR: "1" } });
  const lines = `${stdout}\n${stderr}`.split("\n").map((line) => line.trim());
  // A check that was not run proves nothing.
  const none = lines.find((line) => /no tests ran|No test files found|^e2e: there is no |(^|\s)0 passed|collected 0 items|^ERROR: not found/.test(line));
  const said = lines.findLast((line) => /^(AssertionError|E +\S|Error: |Timed out|FAILED  )|not so:/.test(line)) ?? "";
  return { passes: status === 0, ran: !none && status !== null, said: said.slice(0, 160), seconds: Math.round((Date.now() - began) / 1000) };
}

/** Run a check without its fix, then restore the file, also after an error or a signal. */
function without(mutation) {
  const file = path.join(REPOSITORY, mutation.file);
  const before = fs.readFileSync(file, "utf8");
  if (before.split(mutation.fix).length !== 2) throw new Error(`${mutation.file} does not contain exactly once: ${mutation.fix}`);
  fs.writeFileSync(file, before.replace(mutation.fix, () => mutation.fault));
  const restore = () => fs.writeFileSync(file, before);
  const stop = () => {
    restore();
    process.exit(130);
  };
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    return ran(mutation.check, mutation.level);
  } finally {
    restore();
    process.removeListener("SIGINT", stop).removeListener("SIGTERM", stop);
  }
}

function checkName({ pytest, vitest, named, e2e }) {
  if (pytest) return pytest.join(" ");
  return vitest ? `extension/${vitest}${named ? `, "${named}"` : ""}` : `end to end, "${e2e}"`;
}

function table(results) {
  const rows = [...results].sort((a, b) => a.point - b.point || a.key.localeCompare(b.key));
  const cell = (text) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const points = Object.entries(POINTS).map(([point, title]) => {
    const own = rows.filter((row) => row.point === Number(point));
    return `| ${point} | ${title} | ${own.filter(({ level }) => level === "unit").length} | ${own.filter(({ level }) => level === "e2e").length} | ${own.filter(({ detected }) => !detected).length} |`;
  });
  return [
    "# Tests of the editor with their fixes reverted",
    "",
    "`node extension/e2e/mutations.mjs` reverts each fix by one replacement in one file and runs the check that is for it.",
    "A fault is detected if the check fails with the fix reverted. Every check also runs in the ordinary suite, where it",
    "passes. A check that did not run is no proof and is not in the table.",
    "",
    "| point | subject | unit checks | end-to-end checks | not detected |",
    "|---:|---|---:|---:|---:|",
    ...points,
    "",
    "| point | fix that is reverted | check | detected | first message | s |",
    "|---:|---|---|---|---|---:|",
    ...rows.map((row) => `| ${row.point} | ${cell(row.what)} (\`${row.file}\`) | ${cell(row.check)} | ${row.detected ? "yes" : "**no**"} | ${cell(row.said) || "exit status"} | ${row.seconds} |`),
    "",
    `Machine: ${os.cpus()[0]?.model ?? "unknown processor"}, ${os.cpus().length} cores, Node ${process.version}.`,
    "",
  ].join("\n");
}

const known = new Map(fs.existsSync(RESULTS) ? JSON.parse(fs.readFileSync(RESULTS, "utf8")).map((row) => [row.key, row]) : []);
const current = new Set(MUTATIONS.map(({ key }) => key));
/** Write the results so far. A run of all mutations takes hours. */
function write() {
  const rows = [...known.values()].filter(({ key }) => current.has(key));
  fs.writeFileSync(RESULTS, `${JSON.stringify(rows, null, 1)}\n`);
  fs.writeFileSync(RESULTS.replace(/json$/, "md"), table(rows));
}

let missed = 0;
for (const mutation of MUTATIONS) {
  if (wanted && !wanted.includes(mutation.key) && !wanted.includes(String(mutation.point))) continue;
  if (options.level && mutation.level !== options.level) continue;
  const changed = execFileSync("git", ["status", "--porcelain", mutation.file], { cwd: REPOSITORY, encoding: "utf8" });
  if (changed) throw new Error(`commit ${mutation.file} first`);
  const found = without(mutation);
  const detected = found.ran && !found.passes;
  if (!detected) missed += 1;
  console.log(`${detected ? "detected" : found.ran ? "MISSED  " : "NOT RUN "} ${mutation.key} (${found.seconds} s) ${found.said}`);
  if (!found.ran) continue;
  known.set(mutation.key, { key: mutation.key, point: mutation.point, level: mutation.level, what: mutation.what, file: mutation.file, check: checkName(mutation.check), detected, said: found.said, seconds: found.seconds });
  write();
}
write();
if (missed > 0) process.exitCode = 1;
