// Tasks of docs/tasks.md in the editor: at most two clicks, drags or commands from an open file, and a sentence that answers.
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

/** What a person does after a file is open. */
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

/** A window with a file of a new workspace open in it, and the account of what is done there. */
export async function opened(bench, name, file, files, settings = NO_TRIALS, size = SIZE) {
  const folder = bench.workspace(`tasks-${name}`, { ...files, ".vscode/settings.json": JSON.stringify({ "skyline.profile.onSave": "never", ...settings }) });
  // A file of the address is opened as text, also a notebook.
  const isNotebook = file.endsWith(".ipynb");
  const window = await Window.open(bench, folder, isNotebook ? "" : file, size);
  if (isNotebook) await window.openFile(file);
  return { window, actions: new Actions() };
}

/** For a picture: the focus in the script, so that its lenses are new, and no hint under the pointer. */
export async function settled(window) {
  await window.focusEditor();
  await window.page.mouse.move(window.page.viewportSize().width / 2, window.page.viewportSize().height - 8);
  const old = window.page.locator(".codelens-decoration a", { hasText: /cancel|measuring/ });
  await until(async () => (await old.count()) === 0, "the lens still tells of the run", 60_000);
}

/** The button in the title of an editor, or in the toolbar of a notebook; it opens the view. */
export async function pressProfile({ page }) {
  const button = page.locator('.action-label:is([aria-label*="Profile Training Script"], :has-text("Profile Training Script")):visible').first();
  await seen(button, "there is no button that profiles");
  await button.click();
}

/** What a part of the view says, once it says this. */
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
