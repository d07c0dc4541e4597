/** Links parts of the view to their code: hovering marks the code, a click opens it. */

import * as vscode from "vscode";
import type { LineReport, ProfileReport, Question } from "../protocol";
import type { Desk } from "../scripts/desk";
import type { Place } from "../view/messages";
import type { Lines, Marks } from "./marks";
import { lineNow } from "./place";
import { OpenSource } from "./source";

/** A line of the profile. `line` is counted from 1, `source` is its text as profiled. */
interface Spot {
  readonly file: string;
  readonly line: number;
  readonly source: string;
}

const MOST_LINES = 12;

export class Pointer {
  #asked = 0;

  constructor(
    private readonly desk: Desk,
    private readonly marks: Marks,
  ) {}

  /** Mark the code of a part of the view. Null removes the mark. */
  async point(place: Place | null): Promise<void> {
    const asked = ++this.#asked;
    if (!place) {
      this.marks.pointed([]);
      return;
    }
    const lines = await this.#lines(place);
    if (asked === this.#asked) this.marks.pointed(lines);
  }

  /** Open the first line of a part's code. */
  async open(place: Place): Promise<void> {
    const [first] = await this.#lines(place);
    const line = first?.lines[0];
    if (!first || line === undefined) return;
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(first.uri));
    const { notebook } = OpenSource.of(document);
    if (notebook) {
      await showCell(notebook, document);
      this.marks.pointed([first]);
      return;
    }
    const shown = vscode.window.visibleTextEditors.find((one) => one.document === document);
    const editor = await vscode.window.showTextDocument(document, { viewColumn: shown?.viewColumn, preview: false });
    const range = document.lineAt(Math.min(line, document.lineCount - 1)).range;
    editor.selection = new vscode.Selection(range.start, range.start);
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }

  async #lines(place: Place): Promise<Lines[]> {
    const { profile } = this.desk;
    if (!profile) return [];
    const question = questionOf(place, profile);
    const edits = question ? await this.desk.previewed(question) : [];
    if (edits.length > 0) return edits.flatMap(({ uri, startLine }) => located(vscode.Uri.parse(uri), () => [startLine]));
    if (place.kind === "whatif") return [];
    const spots = spotsOf(place, profile);
    const byFile = new Map<string, Spot[]>();
    for (const spot of spots) byFile.set(spot.file, [...(byFile.get(spot.file) ?? []), spot]);
    return [...byFile].flatMap(([file, own]) =>
      located(vscode.Uri.file(file), (texts) => own.map((spot) => (texts ? lineNow(texts, spot.line, spot.source) : spot.line - 1))),
    );
  }
}

/** The change whose edits mark the place. Null if the place comes from the profile. */
function questionOf(place: Place, profile: ProfileReport): Question | null {
  if (place.kind === "whatif") return { batchSize: null, whatifs: [place.whatif] };
  if (place.kind !== "batchSize" || profile.batch_size.value === null) return null;
  return { batchSize: profile.batch_size.value + 1, whatifs: [] };
}

/** The lines of the profile for a part of the view, most expensive first. */
export function spotsOf(place: Exclude<Place, { kind: "whatif" }>, profile: ProfileReport): Spot[] {
  switch (place.kind) {
    case "line":
      return [place];
    case "batchSize": {
      const { knob, lives } = profile.batch_size;
      if (!knob && lives) return [{ file: lives.file, line: lives.line, source: "" }];
      return knob ? [{ ...knob, source: profile.lines.find((line) => line.file === knob.file && line.line === knob.line)?.source ?? "" }] : [];
    }
    case "memory":
      return profile.memory.at_peak.slice(0, MOST_LINES);
    case "phase": {
      const phase = place.phase === "communication" ? "other" : place.phase;
      const cost = (line: LineReport): number => line[`${phase}_ms` as "forward_ms"];
      const known = profile.lines.filter((line) => line.line > 0 && cost(line) > 0.02 * profile.iteration_ms.value);
      return known.sort((a, b) => cost(b) - cost(a)).slice(0, MOST_LINES);
    }
  }
}

/** The documents and their lines for the lines of a file that `pick` finds in its text. `pick` gets null if the file is not open. */
function located(uri: vscode.Uri, pick: (texts: readonly string[] | null) => readonly number[]): Lines[] {
  const source = OpenSource.at(uri.fsPath);
  if (!source) return [{ uri: uri.toString(), lines: pick(null) }];
  const byDocument = new Map<string, number[]>();
  for (const picked of pick(source.lines)) {
    const place = source.place(picked);
    if (!place) continue;
    const key = place.document.uri.toString();
    byDocument.set(key, [...(byDocument.get(key) ?? []), place.line]);
  }
  return [...byDocument].map(([key, lines]) => ({ uri: key, lines }));
}

/** Show a cell of a notebook. */
async function showCell(notebook: vscode.NotebookDocument, document: vscode.TextDocument): Promise<void> {
  const index = notebook.getCells().findIndex((cell) => cell.document === document);
  const range = new vscode.NotebookRange(index, index + 1);
  const editor = await vscode.window.showNotebookDocument(notebook, { selections: [range] });
  editor.revealRange(range, vscode.NotebookEditorRevealType.InCenterIfOutsideViewport);
}
