/** Shows the code before and after Skyline's changes as a diff. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { Desk } from "./desk";

const SCHEME = "skyline-before";

export class DiffView implements vscode.TextDocumentContentProvider {
  /** The texts shown, by the URI of their document. */
  readonly #texts = new Map<string, string>();

  constructor(private readonly desk: Desk) {}

  static register(desk: Desk): { view: DiffView; disposable: vscode.Disposable } {
    const view = new DiffView(desk);
    return { view, disposable: vscode.workspace.registerTextDocumentContentProvider(SCHEME, view) };
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.toString()) ?? "";
  }

  /** Open the diff of every changed file. */
  async show(): Promise<void> {
    const files = await this.desk.originals();
    if (files.length === 0) {
      void vscode.window.showInformationMessage("The code of this script contains no change made by Skyline.");
      return;
    }
    this.#texts.clear();
    for (const { uri: file, text } of files) {
      const uri = vscode.Uri.parse(file);
      // The time makes the URI unique: an editor caches the text of a URI.
      const before = vscode.Uri.from({ scheme: SCHEME, path: uri.path, query: `at=${Date.now()}` });
      this.#texts.set(before.toString(), text);
      await vscode.commands.executeCommand("vscode.diff", before, uri, `${path.basename(uri.path)} (without ↔ with Skyline's changes)`);
    }
  }
}
