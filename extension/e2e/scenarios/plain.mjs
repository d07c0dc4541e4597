// A Python file without PyTorch: no server starts, and Skyline shows only its icon.
import { Window } from "../window.mjs";
import { until } from "../workbench.mjs";

export const title = "plain file";

export async function run({ bench, check }) {
  const activations = () => bench.extensionLog().split("activated in").length;
  const before = activations();
  const window = await Window.open(bench, bench.workspace("plain", { "plain.py": "print('no training here')\n" }), "plain.py");
  await until(() => activations() > before, "the extension was not activated", 120_000);
  // A server would start immediately after the activation, and its start is logged first.
  await window.page.waitForTimeout(3000);
  check("a file that imports no PyTorch starts no server", !bench.extensionLog().split("activated in").at(-1).includes("starting:"));
  check("the file has no lens", (await window.page.locator(".codelens-decoration a").count()) === 0);
  await window.close();
}
