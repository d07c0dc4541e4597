/** Shows a trace of PyTorch's profiler in the view: the one in the editor, the one in the explorer, or a chosen one. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { Desk } from "../scripts/desk";
import { ViewProvider } from "../view/provider";

const NAME = /\.json(?:\.gz)?$/;

export async function showTrace(desk: Desk, given: unknown): Promise<void> {
  const uri = given instanceof vscode.Uri ? given : (opened() ?? (await chosen()));
  if (!uri) return;
  await vscode.commands.executeCommand(`${ViewProvider.id}.focus`, { preserveFocus: true });
  const title = `Reading ${path.basename(uri.fsPath)}`;
  await vscode.window.withProgress({ location: { viewId: ViewProvider.id }, title }, () => desk.showTrace(uri));
}

/** The file in the active tab. A compressed file has a tab, but no text. */
function opened(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  const isFile = input instanceof vscode.TabInputText || input instanceof vscode.TabInputCustom;
  return isFile && input.uri.scheme === "file" && NAME.test(input.uri.path) ? input.uri : undefined;
}

async function chosen(): Promise<vscode.Uri | undefined> {
  const files = await vscode.window.showOpenDialog({ title: "Trace of PyTorch's profiler", filters: { Traces: ["json", "gz"] } });
  return files?.[0];
}
