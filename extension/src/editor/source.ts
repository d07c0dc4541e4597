/** Source files in the editor: documents, and notebooks, whose code cells count as one text. */

import * as vscode from "vscode";

const NOTEBOOK = "jupyter-notebook";

/** Selects the cells of notebooks in the filters of the editor. */
export const PYTHON_CELLS = { notebookType: NOTEBOOK, language: "python" } as const;

/** A line of a document, counted from 0. */
export interface DocumentLine {
  readonly document: vscode.TextDocument;
  readonly line: number;
}

/** A document of a source file, and the line of the file's text at which it begins. */
interface Part {
  readonly document: vscode.TextDocument;
  readonly first: number;
}

export class OpenSource {
  private constructor(
    readonly uri: vscode.Uri,
    readonly notebook: vscode.NotebookDocument | null,
    private readonly parts: readonly Part[],
  ) {}

  /** The source file that a document belongs to: its notebook if it is a cell. */
  static of(document: vscode.TextDocument): OpenSource {
    const notebook = vscode.workspace.notebookDocuments.find((one) => one.getCells().some((cell) => cell.document === document));
    return notebook ? OpenSource.ofNotebook(notebook) : new OpenSource(document.uri, null, [{ document, first: 0 }]);
  }

  /** The cells as the server joins them: each code cell that is not blank, after a heading of one line. */
  static ofNotebook(notebook: vscode.NotebookDocument): OpenSource {
    const parts: Part[] = [];
    let end = 0;
    for (const { document, kind } of notebook.getCells()) {
      if (kind !== vscode.NotebookCellKind.Code || document.languageId !== "python" || document.getText().trim() === "") continue;
      parts.push({ document, first: end + 1 });
      end += 1 + document.lineCount;
    }
    return new OpenSource(notebook.uri, notebook, parts);
  }

  /** The open file with this path. Null if it is not open. */
  static at(file: string): OpenSource | null {
    const notebook = vscode.workspace.notebookDocuments.find((one) => one.uri.fsPath === file);
    if (notebook) return OpenSource.ofNotebook(notebook);
    const document = vscode.workspace.textDocuments.find((one) => one.uri.fsPath === file);
    return document ? OpenSource.of(document) : null;
  }

  /** The file in the active editor. Null if there is none. */
  static active(): OpenSource | null {
    const notebook = vscode.window.activeNotebookEditor?.notebook;
    if (notebook) return OpenSource.ofNotebook(notebook);
    const document = vscode.window.activeTextEditor?.document;
    return document ? OpenSource.of(document) : null;
  }

  /** True if Skyline can run the file. */
  get isPython(): boolean {
    if (this.uri.scheme !== "file") return false;
    return this.notebook ? this.notebook.notebookType === NOTEBOOK && this.parts.length > 0 : this.parts[0]?.document.languageId === "python";
  }

  /** The lines of the text. */
  get lines(): string[] {
    return this.parts.flatMap(({ document }, index) => [...(this.notebook ? [`# In [${index + 1}]`] : []), ...document.getText().split(/\r?\n/)]);
  }

  /** The place of a line of the text, counted from 0. Null for the heading of a cell and past the end. */
  place(line: number): DocumentLine | null {
    const part = this.parts.findLast(({ first }) => line >= first);
    const own = part ? line - part.first : 0;
    return part && own < part.document.lineCount ? { document: part.document, line: own } : null;
  }
}
