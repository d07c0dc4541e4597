/** Marks in the text: lines that were just changed, and the code that belongs to a part of the view. */

import * as vscode from "vscode";
import { OpenSource } from "./source";
import { touchedLines } from "./touched";

/** Lines of one document, counted from 0. */
export interface Lines {
  readonly uri: string;
  readonly lines: readonly number[];
}

export class Marks implements vscode.Disposable {
  readonly #changed = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.modifiedForeground"),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
  readonly #pointed = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("editor.rangeHighlightBackground"),
    borderWidth: "0 0 0 3px",
    borderStyle: "solid",
    borderColor: new vscode.ThemeColor("focusBorder"),
  });
  #changedLines: readonly Lines[] = [];
  readonly #listener = vscode.window.onDidChangeVisibleTextEditors(() => this.#show(this.#changed, this.#changedLines));

  /** Mark the lines that a change has edited, until the next call. */
  changed(lines: readonly Lines[]): void {
    this.#changedLines = lines;
    this.#show(this.#changed, lines);
    const first = lines[0];
    const editor = vscode.window.visibleTextEditors.find((one) => one.document.uri.toString() === first?.uri);
    if (editor && first?.lines[0] !== undefined) {
      editor.revealRange(editor.document.lineAt(Math.min(first.lines[0], editor.document.lineCount - 1)).range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    }
  }

  /** Mark the source lines of a part of the view. An empty list removes the mark. */
  pointed(lines: readonly Lines[]): void {
    this.#show(this.#pointed, lines);
  }

  dispose(): void {
    this.#listener.dispose();
    this.#changed.dispose();
    this.#pointed.dispose();
  }

  #show(type: vscode.TextEditorDecorationType, marked: readonly Lines[]): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const lines = marked.find((one) => one.uri === editor.document.uri.toString())?.lines ?? [];
      const ranges = lines.filter((line) => line < editor.document.lineCount).map((line) => editor.document.lineAt(line).range);
      editor.setDecorations(type, ranges);
    }
  }
}

/** Records the lines edited between construction and `stop`, as lines of the final text. */
export class EditRecorder {
  readonly #touched = new Map<string, Set<number>>();
  readonly #listener = vscode.workspace.onDidChangeTextDocument((event) => {
    if (OpenSource.of(event.document).uri.scheme !== "file") return;
    const uri = event.document.uri.toString();
    this.#touched.set(uri, touchedLines(this.#touched.get(uri) ?? new Set(), event.contentChanges));
  });

  stop(): Lines[] {
    this.#listener.dispose();
    return [...this.#touched].map(([uri, lines]) => ({ uri, lines: [...lines].sort((a, b) => a - b) }));
  }
}
