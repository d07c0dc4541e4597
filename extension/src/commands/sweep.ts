/** Sweeps a setting of the script: `skyline sweep` in a terminal, then its page with charts in a tab of the editor. */

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import type { RememberedRuns } from "../launch/remembered";
import type { Desk } from "../scripts/desk";
import type { Session } from "../server/session";
import { skylineTask } from "../tasks";
import { showPage } from "./report";

interface Way extends vscode.QuickPickItem {
  /** The name of the device to predict for; empty: measured here; null: to be typed. */
  readonly gpu: string | null;
}

const WAYS: readonly Way[] = [
  { label: "Predict for this processor", description: "three values are run here, the others are interpolated", gpu: "cpu" },
  { label: "Predict for a GPU…", description: "nothing is run; the GPU need not be present", gpu: null },
  { label: "Measure here", description: "the values run alternately, for a few minutes", gpu: "" },
];
/** The setting typed last, for the next question. */
let last = "";

export async function sweepSetting(session: Session, desk: Desk, runs: RememberedRuns): Promise<void> {
  const script = await desk.target();
  if (!script) return;
  const name = path.basename(script.fsPath);
  const vary = (await vscode.window.showInputBox({ title: `Setting of ${name} to vary, and its values`, prompt: "Values: 64:1024:64 (a step of 64), 64:1024:x2 (doubled), 64:1024:/8 (8 values), or a list: 64,128,256", placeHolder: "hidden=64:1024:64", value: last, validateInput: problemOf }))?.trim();
  if (!vary) return;
  last = vary;
  const way = await vscode.window.showQuickPick(WAYS, { title: `Time and memory of ${name} over ${vary}` });
  if (!way) return;
  const gpu = way.gpu ?? (await vscode.window.showInputBox({ title: "GPU to predict for", placeHolder: "h100" }))?.trim();
  if (gpu === undefined || (way.gpu === null && gpu === "")) return;
  await shown(session, script, runs, { vary, gpu });
}

async function shown(session: Session, script: vscode.Uri, runs: RememberedRuns, { vary, gpu }: { vary: string; gpu: string }): Promise<void> {
  const folder = vscode.workspace.getWorkspaceFolder(script);
  const args = runs.of(script.toString())?.args ?? vscode.workspace.getConfiguration("skyline", script).get<string[]>("profile.args", []);
  const scratch = await mkdtemp(path.join(tmpdir(), "skyline-sweep-"));
  try {
    const page = path.join(scratch, "sweep.html");
    const definition = { type: "skyline", script: folder ? vscode.workspace.asRelativePath(script, false) : script.fsPath, vary, args, page, ...(gpu && { gpu }) };
    const task = await skylineTask(session, definition, folder);
    if (!task) return;
    task.presentationOptions = { echo: false, clear: true, showReuseMessage: false };
    await ended(await vscode.tasks.executeTask(task));
    // A failed sweep shows its error in the terminal and writes no page.
    const report = await readFile(page, "utf8").catch(() => null);
    if (report !== null) showPage(`Sweep: ${vary}`, report);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

function ended(execution: vscode.TaskExecution): Promise<void> {
  return new Promise((resolve) => {
    const listener = vscode.tasks.onDidEndTask((event) => {
      if (event.execution !== execution) return;
      listener.dispose();
      resolve();
    });
  });
}

/** The reason why a text does not name a setting with values. Undefined if it does. */
export function problemOf(text: string): string | undefined {
  return /^\s*[\w.@:/\\-]+=[^=\s]+\s*$/.test(text) ? undefined : "Write NAME=VALUES, as in hidden=64:1024:64";
}
