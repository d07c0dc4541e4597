/** The changes made in the code, beside the code as it was. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { Desk } from "./desk";

const SCHEME = "skyline-before";

export class DiffView implements vscode.TextDocumentContentProvider {
  /** The texts on show, by the URI that they are shown under. */
  readonly #texts = new Map<string, string>();

  constructor(private readonly desk: Desk) {}

  static register(desk: Desk): { view: DiffView; disposable: vscode.Disposable } {
    const view = new DiffView(desk);
    return { view, disposable: vscode.workspace.registerTextDocumentContentProvider(SCHEME, view) };
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.toString()) ?? "";
  }

  /** Open the diff of every file that was changed. */
  async show(): Promise<void> {
    const files = await this.desk.originals();
    if (files.length === 0) {
      void vscode.window.showInformationMessage("No change of Skyline's is in the code of this script.");
      return;
    }
    this.#texts.clear();
    for (const { uri: file, text } of files) {
      const uri = vscode.Uri.parse(file);
      // The time makes it another document each time: an editor keeps what a provider once gave it.
      const before = vscode.Uri.from({ scheme: SCHEME, path: uri.path, query: `at=${Date.now()}` });
      this.#texts.set(before.toString(), text);
      await vscode.commands.executeCommand("vscode.diff", before, uri, `${path.basename(uri.path)} (without ↔ with Skyline's changes)`);
    }
  }
}
