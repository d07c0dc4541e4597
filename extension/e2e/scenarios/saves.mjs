// A script runs again when the user saves it. Changes by git or other programs start no run. On another
// branch, the first save asks before it starts a run.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { filesOf, NO_TRIALS, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const savedByHand = ofEachKind("saves", run, ["split"]);

/** The window shows a run within a second after the save that starts it. */
const QUIET_MS = 3000;
const QUESTION = "train.py was last profiled on branch main; now on other. Profile it on save here too?";
/** The line that differs on the other branch. */
const SEED = "torch.manual_seed(0)";
const IDENTITY = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"];

async function run({ bench, check }, kind) {
  const name = `saves-${kind.name}`;
  const script = filesOf(kind)["train.py"];
  const folder = bench.workspace(name, {
    ...filesOf(kind),
    ".gitignore": ".skyline/\n",
    ".vscode/settings.json": JSON.stringify({ ...NO_TRIALS, "skyline.profile.steps": 4 }),
  });
  const file = path.join(folder, "train.py");
  const git = (...command) => execFileSync("git", [...IDENTITY, ...command], { cwd: folder, stdio: "pipe" });
  const onOther = script.replace(SEED, SEED.replace("0", "1"));
  git("init", "-q", "-b", "main");
  git("add", ".");
  git("commit", "-qm", "first");
  git("switch", "-qc", "other");
  fs.writeFileSync(file, onOther);
  git("commit", "-qam", "second");
  git("switch", "-q", "main");

  const window = await Window.open(bench, folder, "train.py", WHOLE);
  const { page, view } = window;
  const runs = async () => (await page.locator(".codelens-decoration a", { hasText: "cancel" }).count()) > 0 || (await page.locator(".statusbar", { hasText: "Profiling train.py" }).count()) > 0;
  const profiles = () => bench.profiles(name).length;
  const quiet = async (what, asked) => {
    const before = profiles();
    for (const end = Date.now() + QUIET_MS; Date.now() < end; await page.waitForTimeout(100)) {
      if (await runs()) throw new Error(`not so: ${what}: a run has started`);
    }
    check(what, profiles() === before);
    check(asked ? "the question is shown" : "no question is shown", (await window.notification("Profile it on save").count()) === (asked ? 1 : 0));
  };
  const type = async (line) => {
    await window.focusEditor();
    await page.keyboard.press("Control+Home");
    await page.keyboard.type(line, { delay: 10 });
    await page.keyboard.press("Escape");
    await page.keyboard.press("Enter");
  };
  const stale = async (what) => {
    await window.seesLens("~ stale", 60_000);
    await seen(view.locator("h1 .badge", { hasText: "~ stale" }), what);
    check(what, true);
  };

  try {
    await window.seesLens("Profile this training script");
    await window.clickLens("Profile this training script", async () => (await window.lens("Profile this training script").count()) === 0, "the lens did not start a run");
    await window.profiled();
    check("the run saves one profile", profiles() === 1);

    git("checkout", "-q", "other");
    await until(async () => (await window.line("manual_seed")).includes("manual_seed(1)"), "the editor does not show the other branch");
    await stale("after git checkout the figures are marked as stale");
    await quiet("git checkout starts no run", false);

    await type("typed_here = 1");
    const saved = await window.saved(file);
    check("the file contains the typed text", saved === `typed_here = 1\n${onOther}`);
    const toast = window.notification(QUESTION);
    await seen(toast, "the first save on the other branch shows no question");
    check("the first save on the other branch shows the question", true);
    // A notification does not disappear while the pointer is over it.
    await toast.hover();
    await quiet("no run starts before the answer", true);
    await toast.locator(".monaco-button", { hasText: "Profile on Save" }).click();
    await until(runs, "the answer started no run");
    check("Profile on Save starts a run", true);
    await until(() => profiles() === 2, "the run saved no profile", 300_000);
    await until(async () => !(await runs()) && (await window.lens("stale").count()) === 0, "the run did not end", 300_000);
    check("the figures are not stale after the run", (await view.locator("h1 .badge").count()) === 0);

    const typed = fs.readFileSync(file, "utf8");
    fs.writeFileSync(file, typed.replace("manual_seed(1)", "manual_seed(2)"));
    await until(async () => (await window.line("manual_seed")).includes("manual_seed(2)"), "the editor does not show the text of the other program");
    await stale("after a write by another program the figures are marked as stale");
    await quiet("a write by another program starts no run", false);
    fs.writeFileSync(file, typed);
    await until(async () => (await window.lens("stale").count()) === 0, "the figures stay stale, although the profiled text is restored", 60_000);

    git("restore", "train.py");
    await until(async () => (await page.locator(".monaco-editor .view-line", { hasText: "typed_here" }).count()) === 0, "the editor does not show the restored text");
    await stale("after git restore the figures are marked as stale");
    await quiet("git restore starts no run", false);

    await type("typed_again = 1");
    await window.saved(file);
    await until(runs, "the second save on the branch started no run");
    check("the next save on this branch starts a run without a question", (await window.notification("Profile it on save").count()) === 0);
  } finally {
    await window.close();
  }
}
