import { afterEach, describe, expect, it, vi } from "vitest";
import * as editor from "./editor";

vi.mock("vscode", async () => (await import("./editor")).vscode());

import type * as vscode from "vscode";
import { OpenSource } from "../src/editor/source";

const CODE = 2;
const MARKUP = 1;

function document(uri: string, text: string, languageId = "python"): vscode.TextDocument {
  return { uri: editor.Uri.parse(uri), languageId, lineCount: text.split("\n").length, getText: () => text } as unknown as vscode.TextDocument;
}

/** An open notebook with cells of these kinds, languages and texts. */
function notebook(cells: readonly [number, string, string][], uri = "file:///home/ada/a.ipynb"): vscode.NotebookDocument {
  const made = cells.map(([kind, languageId, text], index) => ({ kind, document: document(`vscode-notebook-cell:///home/ada/a.ipynb#${index}`, text, languageId) }));
  const opened = { uri: editor.Uri.parse(uri), notebookType: "jupyter-notebook", getCells: () => made };
  editor.notebookDocuments.push(opened);
  return opened as unknown as vscode.NotebookDocument;
}

afterEach(() => void editor.notebookDocuments.splice(0));

describe("the source of a document", () => {
  it("is the document itself, line by line", () => {
    const train = document("file:///home/ada/train.py", "import torch\nx = 1");
    const source = OpenSource.of(train);
    expect(source.lines).toEqual(["import torch", "x = 1"]);
    expect(source.place(1)).toEqual({ document: train, line: 1 });
    expect(source.place(2)).toBeNull();
    expect(source.isPython).toBe(true);
  });

  it("is the notebook of a cell", () => {
    const opened = notebook([
      [CODE, "python", "import torch\nx = 1"],
      [MARKUP, "markdown", "# Text"],
      [CODE, "python", "  \n"],
      [CODE, "shellscript", "ls"],
      [CODE, "python", "y = 2"],
    ]);
    const [first, , , , last] = opened.getCells();
    const source = OpenSource.of(last?.document as vscode.TextDocument);
    expect(source.uri.path).toBe("/home/ada/a.ipynb");
    // The server joins cells in the same way, with a heading before each Python cell.
    expect(source.lines).toEqual(["# In [1]", "import torch", "x = 1", "# In [2]", "y = 2"]);
    expect(source.place(2)).toEqual({ document: first?.document, line: 1 });
    expect(source.place(4)).toEqual({ document: last?.document, line: 0 });
    expect(source.place(0)).toBeNull();
    expect(source.place(3)).toBeNull();
    expect(source.place(5)).toBeNull();
    expect(source.isPython).toBe(true);
  });

  it("cannot run without Python code or without a file", () => {
    expect(OpenSource.ofNotebook(notebook([[CODE, "julia", "x = 1"]])).isPython).toBe(false);
    expect(OpenSource.ofNotebook(notebook([[CODE, "python", "x = 1"]], "untitled:///a.ipynb")).isPython).toBe(false);
    expect(OpenSource.of(document("file:///home/ada/notes.md", "", "markdown")).isPython).toBe(false);
  });
});
