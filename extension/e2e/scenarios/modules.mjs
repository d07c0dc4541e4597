// A module without a training loop: Skyline finds, shows and profiles the script that trains with it.
import * as fs from "node:fs";
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "modules";

const SPLIT = path.join(import.meta.dirname, "../scripts/split");

export async function run({ bench, check }) {
  const read = (name) => fs.readFileSync(path.join(SPLIT, name), "utf8");
  const modules = Object.fromEntries(["train.py", "model.py", "data.py"].map((name) => [name, read(name)]));
  const files = { ...modules, ".vscode/settings.json": JSON.stringify(NO_TRIALS) };
  const window = await Window.open(bench, bench.workspace("split-module", files), "data.py");
  const { page, view } = window;
  await window.showView();
  await seen(view.locator("text=data.py has no training loop of its own: train.py trains with it."), "the view does not name the script that trains with the module");
  check("the view names the script that trains with the file", (await view.locator("h1").innerText()) === "train.py");
  check("the module has no lens", (await page.locator(".codelens-decoration a").count()) === 0);
  await view.locator("button", { hasText: "Profile Training Script" }).click();
  await until(async () => (await view.locator("button, .link", { hasText: "Cancel" }).count()) > 0 || (await view.locator(".stats").count()) > 0, "no run began", 60_000);
  await seen(page.locator(".statusbar", { hasText: "Profiling train.py" }), "train.py does not run");
  await seen(view.locator(".stats"), "there is no profile", 300_000);
  await window.runEnded();
  check("a run from the module profiles train.py", bench.profiles("split-module").every((name) => name.startsWith("train")) && bench.hasProfiles("split-module"));
  check("the view shows the batch size of train.py", (await view.locator("input[type=number]").inputValue()) === "24");
  await window.openFile("model.py");
  await page.waitForTimeout(1500);
  check("the other module also shows the profile of train.py", (await view.locator("h1").innerText()).includes("train.py") && (await view.locator(".stats").count()) === 1);
  await window.close();

  const several = { ...files, "ablation.py": read("train.py") };
  const second = await Window.open(bench, bench.workspace("several-scripts", several), "data.py");
  await second.showView();
  await seen(second.view.locator("text=These scripts train with it: train.py, ablation.py."));
  check("if several scripts train with the module, the view names all, most likely first", true);
  await second.view.locator("button", { hasText: "Profile Training Script" }).click();
  const rows = second.page.locator(".quick-input-list .monaco-list-row");
  await seen(rows.filter({ hasText: "ablation.py" }), "no list of scripts opens");
  check("no run starts before a script is chosen", (await second.page.locator(".statusbar", { hasText: "Profiling" }).count()) === 0);
  await rows.filter({ hasText: "ablation.py" }).click();
  await seen(second.page.locator(".statusbar", { hasText: "Profiling ablation.py" }), "the chosen script does not run", 60_000);
  check("the chosen script runs", true);
  await second.view.locator("button", { hasText: "Cancel" }).first().click();
  await second.close();

  const alone = await Window.open(bench, bench.workspace("lone-module", { "data.py": read("data.py") }), "data.py");
  await alone.showView();
  await seen(alone.view.locator("text=skyline.profile.entryPoint"), "the view does not name the next step");
  check("if no script trains with the module, the view names the setting", (await alone.view.locator("text=no script in this folder was found that trains with it").count()) === 1);
  await alone.close();
}
