// The fixes to revert. `fix` occurs once in the file, and `fault` replaces it. `check` must then fail.

export const POINTS = {
  1: "a drag: handle, batch size, curve, number written",
  2: "Verify",
  3: "fix-all on save",
  4: "batch size of the loader",
  5: "bars without a literal",
  6: "switches that switch off",
  7: "live number, usual sizes, history",
  8: "only a person's save measures again",
  9: "never stuck",
  10: "the package",
  11: "colours and figures",
  12: "plain clients",
};

const page = (named) => ({ vitest: "test/webview/page.test.ts", named });
const unit = (point, key, what, file, fix, fault, check) => ({ point, key: `${point}${key}`, level: "unit", what, file, fix, fault, check });
/** The same fault with a check in a real VS Code. */
const endToEnd = (mutation, key, scenario) => ({ ...mutation, key: `${mutation.point}${key}`, level: "e2e", check: { e2e: scenario } });

const emptyCurve = unit(1, "a", "a prediction without a curve leaves the curve alone", "extension/webview/board.ts",
  "if (estimate?.curve && estimate.curve.length > 1) this.#setCurve(estimate.curve);", "if (estimate) this.#setCurve(estimate.curve ?? []);",
  page("of the argparse script keeps the handle of the throughput bar"));
const profiledText = unit(2, "a", "a change is measured over the profiled text", "lsp/skyline_lsp/verifying.py",
  "source_overrides=(*others, *((path, source.text) for path, source in prepared.sources.items())),", "source_overrides=(*others, *request.source_overrides),",
  { pytest: ["tests/lsp/test_verifying.py", "-k", "over_the_profiled_text"] });
const exactKind = unit(3, "a", "fix-all is answered only if exactly it is asked for", "lsp/skyline_lsp/features/code_action.py",
  "if _named(FIX_ALL, only):", "if _wanted(FIX_ALL, only):", { pytest: ["tests/lsp/test_resolving.py", "tests/lsp/test_changes.py"] });
const loaderTruth = unit(4, "a", "the loader's batch size is the run's", "skyline/capture/batch_in_force.py",
  "if loader is not None and loader.batch_size:", "if loader is not None and loader.batch_size and not candidates:",
  { pytest: ["tests/core/capture/test_batch_in_force.py"] });
const loaderWay = unit(5, "a", "other batch sizes are measured by the loader", "skyline/capture/batch_way.py",
  "return LoaderWay(loader.created_line, loader.batch_size)", "return None", { pytest: ["tests/core/capture/test_batch_in_force.py"] });
const anchored = unit(6, "a", "a change is found after other edits", "skyline/source/written_change.py",
  "places = [_place(self.after, now.text, hunk.start, hunk.end) for hunk in self.hunks]", "places = [(hunk.start, hunk.end) if now.text == self.after else None for hunk in self.hunks]",
  { pytest: ["tests/core/source/test_written_change.py"] });
const present = unit(6, "b", "what the profiled code has is a switch", "extension/webview/whatifs.ts",
    "const there = known.filter((estimate) => estimate.present !== null && !replaced(estimate.name));", "const there: EstimateReport[] = known.filter(() => false);", page("shows what the code had when it was profiled"));
const history = unit(7, "b", "changes stay known after a new profile", "lsp/skyline_lsp/code_changes.py",
  "here = [one for one in known if one.now]", "here = [one for one in known if one.now and not one.measured]",
  { pytest: ["tests/lsp/test_code_changes.py", "-k", "stay_known"] });
const otherPrograms = unit(8, "a", "writes of other programs run nothing", "lsp/skyline_lsp/saves.py",
  "saved = self._by_person | (files - by_git)", "saved = self._by_person | files", { pytest: ["tests/lsp/test_permission.py", "-k", "other_programs"] });
const automatic = unit(8, "b", "automatic saves run nothing", "lsp/skyline_lsp/saves.py",
  "if automatic and self._server.settings_at(path).profile.on_save not in _AUTOMATIC:", "if automatic and False:", { pytest: ["tests/lsp/test_permission.py", "-k", "automatic_save"] });
const consent = unit(8, "c", "another branch is asked about", "lsp/skyline_lsp/permission.py",
  "return self._remembered.holds(script, checkout_at(script))", "return self.was_given(script)", { pytest: ["tests/lsp/test_permission.py", "-k", "first_save_on_a_branch"] });
const certain = unit(11, "b", "a what-if is green only if its range excludes zero", "extension/webview/units.ts",
  'if (gain.low > 1) return "better";', 'if (gain.value > 1) return "better";', { vitest: "test/webview/units.test.ts" });

export const MUTATIONS = [
  emptyCurve,
  unit(1, "b", "the batch size follows the pointer", "extension/webview/scale.ts",
    "const reaching = this.#reaching(quantity, target);", "const reaching = 71 + 0 * this.#reaching(quantity, target);", { vitest: "test/webview/scale.test.ts" }),
  unit(1, "c", "the number written is the number shown", "extension/webview/board.ts",
    'else this.post({ type: "batchSize", batchSize: asked });', 'else this.post({ type: "batchSize", batchSize: Math.ceil(asked / 2) });', page("of the argparse script keeps the handle")),
  unit(1, "d", "the figures are those of the prediction", "extension/webview/board.ts",
    "const estimate = this.#plain() ? null : this.#estimate;", "const estimate = null as EstimateReport | null;", page("of the argparse script keeps the handle")),
  endToEnd(emptyCurve, "e", "dragging argparse"),

  profiledText,
  unit(2, "b", "a removal can be verified", "lsp/skyline_lsp/code_changes.py",
    "if batch_size is None and not put and not taken:", "if batch_size is None and not put:", { pytest: ["tests/lsp/test_code_changes.py", "-k", "the_person_wrote or lost"] }),
  unit(2, "c", "a new profile drops the verification of the old one", "extension/src/scripts/desk.ts",
    "outcome: NOTHING, best: null, verified: null }", "outcome: NOTHING, best: null }", { vitest: "test/desk.test.ts", named: "goes with a new profile" }),
  unit(2, "d", "Take back drops the verification", "extension/src/scripts/desk.ts",
    "const verified = asksTheSame(known.code?.verify, code?.verify) ? known.verified : null;", "const verified = known.verified;", { vitest: "test/desk.test.ts", named: "goes when its change is taken back" }),
  endToEnd(profiledText, "e", "verifying additions"),

  exactKind,
  endToEnd(exactKind, "b", "fix all argparse"),

  loaderTruth,
  { point: 4, key: "4b", level: "e2e", what: "a divisor of the loader's batch size is not the run's", file: "skyline/capture/batch_in_force.py",
    fix: "        size = loader.batch_size", fault: "        size = max(1, loader.batch_size // 2)", check: { e2e: "dragging dataclass" } },

  loaderWay,
  unit(5, "b", "letting go of a read-only bar writes nothing", "extension/webview/board.ts",
    "else if (this.#readOnly) this.#draw();", "else if (this.#dead) this.#draw();", page("tells where the number is that it cannot write")),
  endToEnd(loaderWay, "c", "dragging computed"),

  anchored,
  present,
  endToEnd(present, "c", "removing"),

  unit(7, "a", "a drag stops at usual sizes", "extension/webview/scale.ts",
    "return this.usual.reduce((best, size) => (Math.abs(size - reaching) < Math.abs(best - reaching) ? size : best));", "return reaching;", { vitest: "test/webview/scale.test.ts" }),
  history,
  { point: 7, key: "7c", level: "e2e", what: "the number in the code follows the bar", file: "extension/src/view/provider.ts",
    fix: "else await this.live.show(this.desk.previewed({ batchSize: message.batchSize, whatifs: [] }));", fault: "else this.live.clear();", check: { e2e: "dragging argparse" } },
  endToEnd(history, "d", "changing split"),

  otherPrograms,
  automatic,
  consent,
  endToEnd(otherPrograms, "d", "saves argparse"),
  endToEnd(automatic, "e", "changing argparse"),

  unit(9, "a", "a Python extension that hangs is waited for only so long", "extension/src/python/choose.ts",
    'within(ANSWER_LIMIT_MS, "the Python extension", extension.environments.resolveEnvironment(active))', "extension.environments.resolveEnvironment(active)", { vitest: "test/choose.test.ts" }),
  unit(9, "b", "missing arguments offer to give them", "extension/src/scripts/failure.ts",
    "if (usage === null) return { message: error, fix: AGAIN };", "if (usage === null || usage) return { message: error, fix: AGAIN };", { vitest: "test/desk.test.ts", named: "fails for its arguments" }),
  unit(9, "c", "the script's usage text is found", "skyline/capture/ended_early.py",
    "if not begins:", "if begins or not begins:", { pytest: ["tests/core/capture/test_usage_text.py"] }),
  unit(9, "d", "a module is run by the script that imports it", "extension/src/scripts/desk.ts",
    "if (known.entry.itself || scripts.length === 0) return known.uri;", "if (known) return known.uri;", { vitest: "test/desk.test.ts", named: "a module" }),
  unit(9, "e", "a notebook is recognised", "extension/src/editor/notebook.ts",
    'return uri.scheme === CELL || uri.path.endsWith(".ipynb") ? path.posix.basename(uri.path) : null;', "return uri.scheme ? null : path.posix.basename(uri.path);", { vitest: "test/desk.test.ts", named: "a notebook" }),

  unit(10, "a", "an unsupported Python is refused in words", "extension/bundled/interpreter_fit.py",
    "    if not has_compiled_part():", "    if False:", { vitest: "test/fitness.test.ts" }),
  unit(10, "b", "no compiled Python files are packaged", "extension/.vscodeignore",
    "!bundled/libs/**/!(*.pyc)", "!bundled/libs/**", { vitest: "test/package.test.ts" }),
  unit(10, "c", "pictures have addresses that the store page finds", "extension/package.json",
    "--baseImagesUrl https://raw.githubusercontent.com/skyline-profiler/skyline/main/extension", "--baseImagesUrl https://github.com/skyline-profiler/skyline/blob/main/extension", { vitest: "test/package.test.ts" }),

  unit(11, "a", "what is shown as 0 % has no colour", "extension/webview/units.ts",
    'if (!gain || Math.abs(gain.value - 1) < NOTHING) return "";', 'if (!gain) return "";', { vitest: "test/webview/units.test.ts" }),
  certain,
  unit(11, "c", "a verification has the colour of its gain", "extension/webview/results.ts",
    '{ class: `verified ${doubt ? "" : direction(measured.speedup)}`, role: "status" }', '{ class: `verified ${report.held === false ? "worse" : "better"}`, role: "status" }', { vitest: "test/webview/results.test.ts" }),
  unit(11, "d", "a combination without a range is not green", "extension/webview/results.ts",
    'estimate.extrapolated || doubt ? "" : direction(range)', 'estimate.extrapolated || doubt ? "" : direction(range ?? { value: estimate.speedup, low: estimate.speedup, high: estimate.speedup })', { vitest: "test/webview/results.test.ts" }),
  unit(11, "e", "no ±0.0", "extension/webview/units.ts",
    'return high > low && /[1-9]/.test(digits) ? digits : "";', 'return high > low ? digits : "";', { vitest: "test/webview/units.test.ts" }),
  unit(11, "f", "a factor from a baseline within noise is doubted", "extension/webview/units.ts",
    'if (gain < FACTOR || (baseline.high - baseline.low) / 2 < NOISE * baseline.value) return "";', 'if (gain > 0) return "";', { vitest: "test/webview/results.test.ts" }),
  unit(11, "g", "large gains are factors", "extension/webview/units.ts",
    "if (value >= FACTOR) return", "if (value >= 1e9) return", { vitest: "test/webview/units.test.ts" }),
  unit(11, "h", "compiling shows its cost", "extension/webview/whatifs.ts",
    "      once(estimate),\n", "", page("tells what compiling costs")),

  unit(12, "a", "the table of batch sizes marks the size in the code", "lsp/skyline_lsp/curve_table.py",
    "if not curve:", "if curve:", { pytest: ["tests/lsp/test_curve_table.py"] }),
  unit(12, "b", "half and double are offered", "lsp/skyline_lsp/features/code_action.py",
    "if _wanted(REFACTORING, only):", "if False:", { pytest: ["tests/lsp/test_batch_sizes.py", "tests/lsp/test_loop_actions.py", "-k", "half or loop"] }),
];
