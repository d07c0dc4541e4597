/** The changes made in the code, beside the code as it was. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { Desk } from "./desk";

const SCHEME = "skyline-before";

export class DiffView implements vscode.TextDocumentContentProvider {
  constructor(private readonly desk: Desk) {}

  static register(desk: Desk): { view: DiffView; disposable: vscode.Disposable } {
    const view = new DiffView(desk);
    return { view, disposable: vscode.workspace.registerTextDocumentContentProvider(SCHEME, view) };
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const original = new URLSearchParams(uri.query).get("of") ?? "";
    return this.desk.original.get(original) ?? "";
  }

  /** Open the diff of every file that was changed. */
  async show(): Promise<void> {
    const files = [...this.desk.original.keys()];
    if (files.length === 0) {
      void vscode.window.showInformationMessage("Skyline has changed nothing in this script since it was profiled.");
      return;
    }
    for (const file of files) {
      const uri = vscode.Uri.parse(file);
      // The time makes it another document each time: an editor keeps what a provider once gave it.
      const query = new URLSearchParams({ of: file, at: String(Date.now()) }).toString();
      const before = vscode.Uri.from({ scheme: SCHEME, path: uri.path, query });
      await vscode.commands.executeCommand("vscode.diff", before, uri, `${path.basename(uri.path)} (before ↔ with Skyline's changes)`);
    }
  }
}
