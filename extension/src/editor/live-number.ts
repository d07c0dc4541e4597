/** Shows the new number in the code while a bar is dragged. It is written only when the bar is released. */

import * as vscode from "vscode";
import type { PreviewEdit } from "../protocol";

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
      const own = edits.filter((edit) => edit.uri === editor.document.uri.toString() && edit.startLine === edit.endLine && !edit.newText.includes("\n"));
      const range = (edit: PreviewEdit): vscode.Range => new vscode.Range(edit.startLine, edit.startColumn, edit.endLine, edit.endColumn);
      editor.setDecorations(this.#hidden, own.map(range));
      editor.setDecorations(
        this.#shown,
        own.map((edit) => ({ range: range(edit), renderOptions: { after: { contentText: edit.newText, fontWeight: "bold", color: new vscode.ThemeColor("editor.foreground") } } })),
      );
    }
  }
}
