/** Shows the code before and after Skyline's changes as a diff. */

import * as path from "node:path";
import * as vscode from "vscode";
import { OpenSource } from "../editor/source";
import type { Desk } from "./desk";

const SCHEME = "skyline-before";
/** A line that only IPython understands, as the server writes it. */
const IPYTHON = /^(\s*)(?:\S.*? {2})?# IPython: (.*)$/gm;

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
      const source = OpenSource.at(uri.fsPath);
      const before = this.#document(uri, "before", source?.notebook ? text.replace(IPYTHON, "$1$2").trimEnd() : text);
      // The editor's diff of notebooks compares files, but the cells are not saved yet.
      const after = source?.notebook ? this.#document(uri, "after", source.lines.join("\n").trimEnd()) : uri;
      await vscode.commands.executeCommand("vscode.diff", before, after, `${path.basename(uri.path)} (without ↔ with Skyline's changes)`);
    }
  }

  /** A document with this text. */
  #document(of: vscode.Uri, side: string, text: string): vscode.Uri {
    const path = of.path.replace(/\.ipynb$/, ".py");
    // The time makes the URI unique: an editor caches the text of a URI.
    const uri = vscode.Uri.from({ scheme: SCHEME, path, query: `${side}=${Date.now()}` });
    this.#texts.set(uri.toString(), text);
    return uri;
  }
}
