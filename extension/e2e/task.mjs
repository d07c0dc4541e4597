// Helpers for the tasks of docs/tasks.md in the editor. From an open file, a task takes at most two clicks,
// drags or commands, and a sentence answers it.
import { NO_TRIALS } from "./kinds.mjs";
import { Window } from "./window.mjs";
import { seen, until } from "./workbench.mjs";

export const SIZE = { width: 1200, height: 760 };
const MOST_ACTIONS = 2;
export const HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n";
export const SLOW_DATA = `import time
import torch
from torch import nn
from torch.utils.data import DataLoader


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.002)  # a file to read
        return torch.randn(64), index % 4`;

/** The user's actions after a file is open. */
class Actions {
  #done = [];

  async take(what, act) {
    await act();
    this.#done.push(what);
  }

  check(check, task, answer) {
    check(`${task}: ${this.#done.join(", then ")}: ${answer}`, this.#done.length <= MOST_ACTIONS);
  }
}

/** Open a file of a new workspace in a window, and start the list of actions. */
export async function opened(bench, name, file, files, settings = NO_TRIALS, size = SIZE) {
  const folder = bench.workspace(`tasks-${name}`, { ...files, ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never", ...settings }) });
  // The workbench opens a file in its address as text, even a notebook.
  const isNotebook = file.endsWith(".ipynb");
  const window = await Window.open(bench, folder, isNotebook ? "" : file, size);
  if (isNotebook) await window.openFile(file);
  return { window, actions: new Actions() };
}

/**
 * Prepare a screenshot: focus the script, so that its lenses are current, and move the pointer off the text.
 */
export async function settled(window) {
  await window.focusEditor();
  await window.page.mouse.move(window.page.viewportSize().width / 2, window.page.viewportSize().height - 8);
  const old = window.page.locator(".codelens-decoration a", { hasText: /cancel|measuring/ });
  await until(async () => (await old.count()) === 0, "the lens still shows the run", 60_000);
}

/**
 * Press the profile button in the title of an editor or in the toolbar of a notebook. It also opens the view.
 */
export async function pressProfile({ page }) {
  const button = page.locator('.action-label:is([aria-label*="Profile Training Script"], :has-text("Profile Training Script")):visible').first();
  await seen(button, "there is no button that profiles");
  await button.click();
}

/** Wait until the text of a part of the view matches, and return the text. */
export async function sentence({ view }, selector, wanted) {
  let said = "";
  await until(async () => {
    said = (await view.locator(selector).first().innerText()).replaceAll(/\s+/g, " ").trim();
    return wanted.test(said);
  }, `${selector} does not say ${wanted}`).catch((error) => {
    throw new Error(`${error.message}; it says: ${said}`);
  });
  return said;
}
