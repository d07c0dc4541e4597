/** Recognises notebooks, which cannot be profiled yet. */

import * as path from "node:path";
import * as vscode from "vscode";

const CELL = "vscode-notebook-cell";

/** The name of the notebook that a document belongs to. Null if it is not a notebook. */
export function notebookName(uri: vscode.Uri): string | null {
  return uri.scheme === CELL || uri.path.endsWith(".ipynb") ? path.posix.basename(uri.path) : null;
}

/** The name of the active notebook. Null if another editor is active. */
export function activeNotebook(): string | null {
  const notebook = vscode.window.activeNotebookEditor?.notebook.uri;
  const document = vscode.window.activeTextEditor?.document.uri;
  return notebook ? notebookName(notebook) : document ? notebookName(document) : null;
}
