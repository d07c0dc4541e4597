/** Colours the background of expensive lines in five steps, also in the overview ruler. */

import * as vscode from "vscode";
import type { LineReport, ProfileReport } from "../protocol";
import { exactLine } from "./place";
import { OpenSource } from "./source";

/** Thresholds of the steps as shares of the iteration time. */
const STEPS = [0.01, 0.03, 0.08, 0.15, 0.3] as const;
const OPACITY = ["0a", "14", "20", "2e", "40"] as const;

/** The step of a share, from 0. -1 for a share that is not shown. */
export function heatOf(share: number): number {
  return STEPS.findLastIndex((least) => share >= least);
}

export class Heat implements vscode.Disposable {
  #types: vscode.TextEditorDecorationType[] = [];
  #profiles: readonly ProfileReport[] = [];
  /** The profile shown in each editor. The editor itself moves the colours with their lines. */
  #shown = new WeakMap<vscode.TextEditor, string>();
  readonly #listener = vscode.window.onDidChangeVisibleTextEditors(() => this.#show());

  /** Show these profiles. For each file, the first profile that contains it counts. */
  show(profiles: readonly ProfileReport[]): void {
    if (profiles.length > 0 && this.#types.length === 0) this.#types = OPACITY.map(typeOf);
    this.#profiles = profiles;
    this.#show();
  }

  dispose(): void {
    this.#listener.dispose();
    for (const type of this.#types) type.dispose();
  }

  #show(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const file = editor.document.uri.fsPath;
      const profile = this.#profiles.find(({ lines }) => lines.some((line) => line.file === file));
      const key = profile ? profile.id : "";
      if ((this.#shown.get(editor) ?? "") === key) continue;
      this.#shown.set(editor, key);
      const ranges = this.#types.map((): vscode.Range[] => []);
      for (const [index, range] of warm(editor.document, profile?.lines ?? [])) ranges[index]?.push(range);
      this.#types.forEach((type, index) => editor.setDecorations(type, ranges[index] ?? []));
    }
  }
}

function* warm(document: vscode.TextDocument, lines: readonly LineReport[]): Generator<[number, vscode.Range]> {
  const source = OpenSource.of(document);
  const texts = source.lines;
  for (const line of lines) {
    if (line.file !== document.uri.fsPath) continue;
    const index = exactLine(texts, line.line, line.source);
    const place = index === null ? null : source.place(index);
    const heat = heatOf(line.share);
    if (place?.document === document && heat >= 0) yield [heat, document.lineAt(place.line).range];
  }
}

function typeOf(opacity: string): vscode.TextEditorDecorationType {
  const colour = `#e8590c${opacity}`;
  return vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: colour,
    overviewRulerColor: `#e8590c${opacity}`,
    overviewRulerLane: vscode.OverviewRulerLane.Right,
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
  });
}
