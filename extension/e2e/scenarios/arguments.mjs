// A script that needs arguments: its usage text, then profiles with typed arguments and with those of
// launch.json.
import { filesOf, ofEachKind, WHOLE } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const withArguments = ofEachKind("arguments", run, ["argparse"]);

const OPTIONS = [`parser.add_argument("--data", required=True, help="where the images are")`, `parser.add_argument("--tag", default="none")`];
const CHECKED = `if options.data != "my images":
    raise SystemExit(f"there are no images in {options.data}")
`;
const PARSED = `import argparse

parser = argparse.ArgumentParser()
${OPTIONS.join("\n")}
options = parser.parse_args()
${CHECKED}`;
const CONFIGURATION = { name: "Train on my images", type: "debugpy", request: "launch", program: "${file}", args: "--data 'my images' --tag launched" };
const OTHER = { name: "Something else", type: "debugpy", request: "launch", program: "${workspaceFolder}/other.py", args: ["--no"] };

/** The script of this kind with a required option. */
function needingArguments(kind) {
  const script = filesOf(kind)["train.py"];
  if (!script.includes("ArgumentParser")) return PARSED + script;
  const parsed = "    return parser.parse_args()\n";
  if (!script.includes(parsed)) throw new Error(`${kind.name} does not parse its options at the expected place`);
  const checked = ["options = parser.parse_args()", ...CHECKED.trimEnd().split("\n"), "return options"];
  return script.replace(parsed, [...OPTIONS, ...checked].map((line) => `    ${line}\n`).join(""));
}

/** Wait until the script is measured, then cancel the rest of the run: these checks do not need the curve. */
async function measured(window) {
  await seen(window.view.locator(".stats"), "the view shows no measurement", 300_000);
  const cancel = window.view.locator("[data-key=again]", { hasText: "Cancel" });
  await until(async () => {
    if ((await cancel.count()) > 0) await cancel.click({ timeout: 2000 });
    return (await window.view.locator("[data-key=again]", { hasText: "Profile again" }).count()) > 0;
  }, "the run did not end", 120_000);
}

async function run({ bench, check }, kind) {
  const files = { ...filesOf(kind), "train.py": needingArguments(kind) };
  const window = await Window.open(bench, bench.workspace(`arguments-${kind.name}`, files), "train.py", WHOLE);
  const { page, view } = window;
  const input = page.locator(".quick-input-widget input").first();
  const trouble = view.locator(".trouble");
  await window.showView();
  await view.locator("button", { hasText: "Profile Training Script" }).click();
  await seen(trouble.locator("pre"), "the usage text is not in the view", 120_000);
  const usage = await trouble.locator("pre").innerText();
  check("the view shows the script's usage text", usage.startsWith("usage: train.py [-h]") && usage.includes("--data DATA [--tag TAG]") && usage.includes("error: the following arguments are required: --data"));
  check("a line above it states the error", (await trouble.locator("p").innerText()) === "The script did not accept its arguments: the following arguments are required: --data");

  await trouble.locator("button", { hasText: "Profile with Arguments…" }).click();
  await seen(page.locator(".quick-input-widget", { hasText: "Arguments for train.py" }), "no input for the arguments opens");
  check("without launch.json, an empty input opens directly", (await input.inputValue()) === "");
  await input.fill("--data 'my images");
  await seen(page.locator(".quick-input-message", { hasText: "not closed" }));
  check("an unclosed quote is reported during typing", true);
  await input.fill("--data 'my images' --tag typed");
  await page.keyboard.press("Enter");
  await measured(window);
  check("the script is profiled with its arguments", /per iteration/.test(await view.locator(".stats").innerText()));
  await seen(view.locator("text=Profiled with the arguments --data 'my images' --tag typed"));
  check("the view shows the arguments", true);
  await view.locator("[data-key=again]").click();
  // Without its arguments the script would exit before the first iteration.
  await seen(view.locator(".progress", { hasText: /record|curve|samples/ }), "the script was not measured again", 200_000);
  check("the next run uses the same arguments", (await trouble.count()) === 0);
  await view.locator("[data-key=again]", { hasText: "Cancel" }).click();
  await window.runEnded();
  await window.command("Skyline: Profile with Arguments…");
  await until(async () => (await input.inputValue()) === "--data 'my images' --tag typed", "the last arguments are not offered");
  check("the input contains the last arguments", true);
  await page.keyboard.press("Escape");
  await window.close();

  const launch = JSON.stringify({ version: "0.2.0", configurations: [OTHER, CONFIGURATION] });
  const again = await Window.open(bench, bench.workspace(`launch-${kind.name}`, { ...files, ".vscode/launch.json": launch }), "train.py", WHOLE);
  await again.showView();
  await seen(again.view.locator("button", { hasText: "Profile Training Script" }));
  await again.command("Skyline: Profile with Arguments…");
  const rows = again.page.locator(".quick-input-list .monaco-list-row");
  await seen(rows.filter({ hasText: "Train on my images" }), "the configuration is not offered");
  check("only the configurations of this script in launch.json are offered", (await rows.filter({ hasText: "Something else" }).count()) === 0 && (await rows.filter({ hasText: "Type Arguments…" }).count()) === 1);
  await rows.filter({ hasText: "Train on my images" }).click();
  await measured(again);
  await seen(again.view.locator("text=Profiled with the arguments --data 'my images' --tag launched"));
  check("the script gets the arguments of the chosen configuration", true);
  await again.close();
}
