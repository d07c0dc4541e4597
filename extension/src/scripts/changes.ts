/** Changes in the person's code, made and taken back by the server as single undo steps. */

import * as vscode from "vscode";
import { EditRecorder, type Marks } from "../editor/marks";
import { type ApplyResult, METHODS, type Question, type Refusal } from "../protocol";
import type { Connection } from "../server/client";
import { History, isEmpty, nameOf, type Texts, without } from "./history";
import type { KeptChanges } from "./kept";
import { replacing } from "./replacing";

/** What came of a change: what was refused, and a sentence where there is something to say. */
export interface Outcome {
  readonly refused: readonly Refusal[];
  readonly notice: string;
}

const EDITED_SINCE = "The code was edited since the change was made: take it back with the editor's undo, or by hand.";
const FINE: Outcome = { refused: [], notice: "" };

export class Changes {
  readonly #history = new History();
  /** Changes that the server could take back, among them some that were undone in the editor. */
  #onServer = 0;
  #busy: Promise<unknown> = Promise.resolve();

  /** What the changes are over. */
  #profile = "";

  constructor(
    private readonly uri: string,
    private readonly marks: Marks,
    private readonly kept: KeptChanges,
  ) {}

  /** What is in the code but not in the profile. */
  get applied(): Question {
    return this.#history.applied;
  }

  /** The files as they were before the first change. */
  get original(): Texts {
    return this.#history.original;
  }

  get any(): boolean {
    return this.#history.depth > 0;
  }

  /** The first profile that is known of the script: changes over it may have outlived a reload of the window. */
  async over(profile: string): Promise<void> {
    this.#profile = profile;
    const states = this.kept.of(this.uri, profile);
    if (states.length === 0) return;
    // Opens those that no editor shows, so that they can be compared.
    await texts(states.flatMap((state) => [...state.texts.keys()]));
    if (!this.#history.resume(states, textOf)) this.#keep();
  }

  /** A newer profile; where it was made of the code as it is, what was changed is in it. */
  settled(profile: string): void {
    this.#profile = profile;
    this.#history.clear();
    this.#keep();
    this.marks.changed([]);
  }

  /** The text of some file is another: perhaps a change was undone or redone. True where that is so. */
  edited(): boolean {
    const moved = this.#history.look(textOf);
    if (moved) this.marks.changed([]);
    return moved;
  }

  /** Make a change, as one undo step, unsaved. */
  make(connection: Connection, part: Question): Promise<Outcome> {
    return this.#inTurn(() => this.#make(connection, part));
  }

  /** Take the latest change back. */
  takeBack(connection: Connection): Promise<Outcome> {
    return this.#inTurn(() => this.#takeBack(connection));
  }

  /** Take one what-if out of the code; those made after it are taken back first, and made again. */
  remove(connection: Connection, whatif: string): Promise<Outcome> {
    return this.#inTurn(async () => {
      const parts = this.#history.parts;
      const at = parts.findLastIndex((part) => part.whatifs.some((one) => nameOf(one) === nameOf(whatif)));
      if (at < 0) return { refused: [], notice: `${nameOf(whatif)} was not put into the code from here` };
      for (let taken = parts.length; taken > at; taken -= 1) {
        const outcome = await this.#takeBack(connection);
        if (outcome.notice) return outcome;
      }
      for (const part of parts.slice(at).map((one) => without(one, [nameOf(whatif)]))) {
        if (isEmpty(part)) continue;
        const outcome = await this.#make(connection, part);
        if (outcome.refused.length > 0 || outcome.notice) return outcome;
      }
      return FINE;
    });
  }

  async #make(connection: Connection, part: Question): Promise<Outcome> {
    const question = { uri: this.uri, ...part };
    const preview = await connection.request(METHODS.preview, question);
    const uris = [...new Set(preview.edits.map((edit) => edit.uri))];
    const before = await texts(uris);
    const recorder = new EditRecorder();
    let result: ApplyResult;
    try {
      result = await connection.request(METHODS.apply, question);
    } finally {
      const lines = recorder.stop();
      if (lines.length > 0) this.marks.changed(lines);
    }
    if (result.applied) {
      this.#onServer += 1;
      this.#history.push(without(part, result.refused.map(({ name }) => nameOf(name))), before, await texts(uris));
      this.#keep();
      return { refused: result.refused, notice: "" };
    }
    return { refused: result.refused, notice: result.refused.length > 0 ? "" : (result.reason ?? "") };
  }

  async #takeBack(connection: Connection): Promise<Outcome> {
    const { depth } = this.#history;
    if (this.#onServer === 0 && depth > 0) return this.#takeBackHere();
    for (;;) {
      const result = await connection.request(METHODS.revert, { uri: this.uri });
      if (result.applied) {
        this.#onServer -= 1;
        this.#shrink(depth - 1);
        return FINE;
      }
      if (this.#onServer <= depth) return { refused: [], notice: result.reason ?? "" };
      // Undone in the editor already: what lies below it is meant.
      this.#onServer -= 1;
    }
  }

  /** Take a change back that another server made, before the window was reloaded: its texts are known here. */
  async #takeBackHere(): Promise<Outcome> {
    const { depth, now, beforeLatest } = this.#history;
    if (![...now].every(([uri, text]) => textOf(uri) === text)) return { refused: [], notice: EDITED_SINCE };
    const edit = new vscode.WorkspaceEdit();
    for (const [uri, text] of now) {
      const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
      const { start, end, replacement } = replacing(text, beforeLatest.get(uri) ?? text);
      edit.replace(document.uri, new vscode.Range(document.positionAt(start), document.positionAt(end)), replacement);
    }
    if (!(await vscode.workspace.applyEdit(edit))) return { refused: [], notice: EDITED_SINCE };
    this.#shrink(depth - 1);
    return FINE;
  }

  #shrink(depth: number): void {
    this.#history.shrink(depth);
    this.#keep();
    this.marks.changed([]);
  }

  #keep(): void {
    this.kept.keep(this.uri, this.#profile, this.#history.states);
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#busy.then(action);
    this.#busy = turn.catch(() => undefined);
    return turn;
  }
}

function textOf(uri: string): string | undefined {
  return vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri)?.getText();
}

async function texts(uris: readonly string[]): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const given of uris) {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(given));
    found.set(document.uri.toString(), document.getText());
  }
  return found;
}
