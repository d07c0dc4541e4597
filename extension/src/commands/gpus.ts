/** Asks for GPUs, and predicts the script on each of them. */

import * as vscode from "vscode";
import type { Desk } from "../scripts/desk";
import { ViewProvider } from "../view/provider";

/** The names typed last, for the next question. */
let last = "";

export async function compareGpus(desk: Desk): Promise<void> {
  const typed = await vscode.window.showInputBox({
    title: "Compare GPUs",
    prompt: "Names of GPUs, separated by commas. Leave empty for common ones. The GPUs need not be present.",
    placeHolder: "h100, l4",
    value: last,
  });
  if (typed === undefined) return;
  last = typed.trim();
  await vscode.commands.executeCommand(`${ViewProvider.id}.focus`, { preserveFocus: true });
  if (await desk.target()) await desk.devices(last.split(",").map((name) => name.trim()).filter(Boolean));
}
