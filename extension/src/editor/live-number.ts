/** Shows the new number in the code while a bar is dragged. It is written only when the bar is released. */

import * as vscode from "vscode";
import type { PreviewEdit } from "../protocol";
import { OpenSource } from "./source";

export class LiveNumber implements vscode.Disposable {
  readonly #hidden = vscode.window.createTextEditorDecorationType({ textDecoration: "none; display: none" });
  readonly #shown = vscode.window.createTextEditorDecorationType({
    backgroundColor: new vscode.ThemeColor("diffEditor.insertedTextBackground"),
  });
  #asked = 0;

  /** Show the text of these edits once they are known. A newer call replaces an older one. */
  async show(edits: Promise<readonly PreviewEdit[]>): Promise<void> {
    const asked = ++this.#asked;
    const found = await edits;
    if (asked === this.#asked) this.#draw(found);
  }

  /** Show the code unchanged again. */
  clear(): void {
    this.#asked += 1;
    this.#draw([]);
  }

  dispose(): void {
    this.#hidden.dispose();
    this.#shown.dispose();
  }

  #draw(edits: readonly PreviewEdit[]): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const source = OpenSource.of(editor.document);
      const own = edits.flatMap((edit) => {
        if (edit.uri !== source.uri.toString() || edit.startLine !== edit.endLine || edit.newText.includes("\n")) return [];
        const place = source.place(edit.startLine);
        return place?.document === editor.document ? [{ edit, range: new vscode.Range(place.line, edit.startColumn, place.line, edit.endColumn) }] : [];
      });
      editor.setDecorations(this.#hidden, own.map(({ range }) => range));
      editor.setDecorations(
        this.#shown,
        own.map(({ edit, range }) => ({ range, renderOptions: { after: { contentText: edit.newText, fontWeight: "bold", color: new vscode.ThemeColor("editor.foreground") } } })),
      );
    }
  }
}
