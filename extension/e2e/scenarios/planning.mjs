// The plan of a script on a cluster that need not be present: the table, the timeline of a row, and its code.
import * as path from "node:path";
import { NO_TRIALS } from "../kinds.mjs";
import { Window } from "../window.mjs";
import { seen, until } from "../workbench.mjs";

export const title = "planning";

/** The script with its model and its batches moved to a GPU, if one is present. */
function onGpu(script) {
  return script
    .replace("torch.set_num_threads(1)\n", 'torch.set_num_threads(1)\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n')
    .replace("model = Classifier()", "model = Classifier().to(device)")
    .replace("for x, y in loader:\n", "for x, y in loader:\n            x, y = x.to(device), y.to(device)\n");
}

export async function run({ bench, script, check, measured, shot }) {
  // The prediction for the cluster's GPU makes a trace, which the plan uses, too.
  const settings = JSON.stringify({ ...NO_TRIALS, "skyline.profile.onSave": "never", "skyline.gpu": "A100-80GB-SXM" });
  const folder = bench.workspace("planning", { "train.py": onGpu(script), ".vscode/settings.json": settings });
  const window = await Window.open(bench, folder, "train.py", { width: 1400, height: 1100 });
  await window.profileNow();
  const { view } = window;
  await view.locator("summary", { hasText: "Clusters" }).click();
  const cluster = view.locator("[data-key='plan cluster']");
  await until(async () => (await cluster.locator("option").count()) > 10, "the clusters are not offered");
  check("the section offers the clusters", true);

  await cluster.selectOption("dgx-a100");
  await view.locator("[data-key='plan gpus']").fill("12");
  await view.locator("[data-key=plan]").click();
  await seen(view.locator(".plan .notice", { hasText: "A node has 8 GPUs" }), "the refusal of 12 GPUs is not explained");
  check("12 GPUs are refused with the cause and the next step", true);

  await view.locator("[data-key='plan gpus']").fill("8");
  const begun = Date.now();
  await view.locator("[data-key=plan]").click();
  await seen(view.locator(".plan tbody tr"), "there is no table", 300_000);
  measured("trace and plan, s", ((Date.now() - begun) / 1000).toFixed(1));
  const first = await view.locator(".plan tbody tr").first().innerText();
  check(`a table of strategies: ${first.replace(/\s+/g, " ")}`, /micro-batch 32 x 1/.test(first));

  const plain = view.locator(".plan tbody button", { hasText: /^ddp 8, micro-batch 32 x 1$/ });
  await plain.click();
  await seen(view.locator(".lane"), "the row does not open as a timeline");
  check("a row opens as the timeline of its streams", (await view.locator(".lane > span").allInnerTexts()).includes("compute"));
  await view.locator(".opened").scrollIntoViewIfNeeded();
  await shot(window, "planning");

  await view.locator("[data-key='plan write']").click();
  await until(async () => (await window.page.locator(".tab.dirty").count()) > 0, "the code was not written");
  await window.focusEditor("import torch");
  const text = await window.saved(path.join(folder, "train.py"));
  check("the code of the row is written: the script uses DistributedDataParallel", /DistributedDataParallel\(/.test(text) && /init_process_group/.test(text));
  await shot(window, "planning-written");
  check("the page sends no request to other machines", window.page.outside.length === 0);
  check("the page complies with its content security policy", window.page.violations.length === 0);
  await window.close();
}
