/** Notebooks, which are not profiled yet: how to tell one. */

import * as path from "node:path";
import * as vscode from "vscode";

const CELL = "vscode-notebook-cell";

/** The name of the notebook that a document is, or is a cell of; null: it is none. */
export function notebookName(uri: vscode.Uri): string | null {
  return uri.scheme === CELL || uri.path.endsWith(".ipynb") ? path.posix.basename(uri.path) : null;
}

/** The notebook in front; null: something else is. */
export function activeNotebook(): string | null {
  const notebook = vscode.window.activeNotebookEditor?.notebook.uri;
  const document = vscode.window.activeTextEditor?.document.uri;
  return notebook ? notebookName(notebook) : document ? notebookName(document) : null;
}
