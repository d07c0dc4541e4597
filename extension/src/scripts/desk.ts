/** State of the script shown in the view, and the user's actions on it. */

import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { OpenSource } from "../editor/source";
import { importsTorch } from "../editor/training-file";
import type { Marks } from "../editor/marks";
import {
  METHODS,
  type CodeChanges,
  type EntryScripts,
  type EstimateReport,
  type OriginalText,
  type PreviewEdit,
  type ProfileChanged,
  type ProfileReport,
  type Question,
} from "../protocol";
import { askScript } from "../launch/ask";
import type { RunOptions } from "../launch/configurations";
import type { RememberedRuns } from "../launch/remembered";
import type { Connection, Progress } from "../server/client";
import type { Session } from "../server/session";
import type { Stage, ViewState } from "../view/messages";
import type { PlanAsked } from "../view/plan-state";
import { appliedOf, asksTheSame, type Changes, type Outcome } from "./changes";
import { failureOf } from "./failure";
import { type Known, NOTHING, nothingKnown, shownOf } from "./known";
import type { Runs } from "./runs";

export class Desk implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.#changed.event;
  readonly #known = new Map<string, Known>();
  readonly #disposables: readonly { dispose(): unknown }[];
  #current: Known | null = null;
  /** The file in the editor, if it is a module of the script shown. */
  #module: vscode.Uri | null = null;

  constructor(
    private readonly session: Session,
    private readonly marks: Marks,
    private readonly runs: RememberedRuns,
  ) {
    this.#disposables = [
      this.#changed,
      session.onDidChange(({ phase }) => {
        if (phase === "running") for (const known of this.#known.values()) void this.#askAgain(known);
        else this.#interrupted();
      }),
      session.onProfileChanged((news) => void this.#profileChanged(news)),
      session.onMeasuring(({ uri, text }) => this.#update(this.#of(vscode.Uri.parse(uri)), { progress: text })),
      session.onTuning((news) => this.#of(vscode.Uri.parse(news.uri)).others.moved(news)),
      session.onProgress((news) => this.#progressed(news)),
      session.onCodeChanged((code) => this.#codeChanged(this.#of(vscode.Uri.parse(code.uri)), code)),
    ];
  }

  /** The script that the view shows. */
  get uri(): vscode.Uri | null {
    return this.#current?.uri ?? null;
  }

  get profile(): ProfileReport | null {
    return this.#current?.profile ?? null;
  }

  /** The profiles of all scripts opened so far, the one shown first. */
  get profiles(): readonly ProfileReport[] {
    const others = [...this.#known.values()].filter((known) => known !== this.#current);
    return [this.#current, ...others].flatMap((known) => known?.profile ?? []);
  }

  /** The changed files, with their text without Skyline's changes. */
  async originals(): Promise<readonly OriginalText[]> {
    const { known, connection } = this.#both();
    return connection.request(METHODS.original, { uri: known.uri.toString() });
  }

  /** The complete state of the view. */
  get state(): ViewState {
    const known = this.#current;
    const { trouble } = this.session.state;
    const failed = known?.error ? failureOf(known.error, known.usage) : null;
    const module = this.#module ?? (known?.entry?.itself === false ? known.uri : null);
    return {
      ...shownOf(known, known && this.runs.of(known.uri.toString())),
      stage: this.#stage(),
      module: module ? { name: path.basename(module.fsPath), scripts: this.#trainersOf(module) } : null,
      trouble: trouble ?? failed,
      trusted: vscode.workspace.isTrusted,
    };
  }

  /** Show the script or notebook of an editor. Keeps the current script if the file is one of its modules. */
  async follow(source: OpenSource | null): Promise<void> {
    if (source) this.#showScriptOf(source.uri);
    if (!source?.isPython) return;
    const { uri } = source;
    if (!vscode.workspace.getConfiguration("skyline", uri).get<boolean>("enable", true)) return;
    const isPart = this.#current?.profile?.lines.some(({ file }) => file === uri.fsPath) ?? false;
    if (!importsTorch(source.lines.join("\n"))) return;
    const known = this.#of(uri);
    if (isPart) {
      if (await this.session.need(uri)) await this.#refresh(known);
      return;
    }
    this.#current = known;
    this.#module = null;
    this.#changed.fire();
    const connection = await this.session.need(uri);
    if (connection) await this.#enter(known, connection);
  }

  /** Show a trace of PyTorch's profiler. */
  async showTrace(uri: vscode.Uri): Promise<void> {
    const connection = await this.session.need(uri);
    if (!connection) return;
    const { kind, script } = await connection.request(METHODS.open, { uri: uri.toString() });
    if (kind !== "trace") throw new Error(`${path.basename(uri.fsPath)} is a saved profile. It is shown with its script, ${script}.`);
    const known = this.#of(uri);
    known.isTrace = true;
    this.#current = known;
    this.#module = null;
    await this.#refresh(known);
  }

  /** Show the script whose batch size is in a settings file. Does nothing for other files. */
  #showScriptOf(settings: vscode.Uri): void {
    const reads = (known: Known | null): boolean => known?.profile?.batch_size.lives?.file === settings.fsPath;
    const reader = [...this.#known.values()].find(reads);
    if (!reader || reads(this.#current)) return;
    this.#current = reader;
    this.#module = null;
    this.#changed.fire();
  }

  /** The script to run: the one shown, or one that trains with the module shown. Null if none was chosen. */
  async target(): Promise<vscode.Uri | null> {
    const known = this.#current;
    const connection = known && (await this.session.need(known.uri));
    if (!connection) return null;
    known.entry = await entryOf(known.uri, connection);
    const scripts = known.entry.scripts.map((uri) => vscode.Uri.parse(uri));
    // If there is none, the server gives the reason.
    if (known.entry.itself || scripts.length === 0) return known.uri;
    const chosen = scripts.length === 1 ? scripts[0] : await askScript(known.uri, scripts);
    if (!chosen) return null;
    this.#module = known.uri;
    this.#current = this.#of(chosen);
    return chosen;
  }

  /** Run the script shown. Progress and result arrive as events. Stores `options` for later runs; null resets them. */
  async run(options?: RunOptions | null): Promise<void> {
    const uri = await this.target();
    const connection = this.session.connection;
    if (!uri || !connection) return;
    const script = this.#of(uri);
    if (options !== undefined) await this.runs.keep(uri.toString(), options);
    this.#update(script, { progress: "starting", error: null, usage: null, outcome: NOTHING });
    try {
      const { status, script: run } = await connection.execute(METHODS.commandProfile, uri.toString(), this.runs.of(uri.toString()) ?? {});
      const begun = status !== "idle" && (run === null || vscode.Uri.parse(run).toString() === uri.toString());
      // Without a run there is no end event, which would otherwise clear the progress text.
      if (!begun) this.#update(script, { progress: "" });
    } catch (error) {
      this.#update(script, { progress: "", error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Cancel all runs of the script shown. */
  async cancel(): Promise<void> {
    const known = this.#current;
    if (!known) return;
    const answer = await this.session.connection?.execute(METHODS.commandCancel, known.uri.toString());
    if (answer?.status !== "cancelled") this.#update(known, { progress: "" });
  }

  /** Show the latest measurement, although the machine was busy. */
  async showLater(): Promise<void> {
    const { known, connection } = this.#both();
    await connection.execute(METHODS.commandUseLater, known.uri.toString());
  }

  /** Predict the effect of a change relative to the profile. */
  async simulate(question: Question, curve: boolean): Promise<EstimateReport> {
    const { known, connection } = this.#both();
    return connection.request(METHODS.simulate, { uri: known.uri.toString(), ...question, ...(curve ? { curve } : {}) });
  }

  /** Write a batch size into the code. */
  setBatchSize(batchSize: number): Promise<void> {
    return this.#change((changes, connection) => changes.make(connection, { batchSize, whatifs: [] }));
  }

  /** Add a what-if to the code, or remove it. */
  toggle(whatif: string, on: boolean): Promise<void> {
    return this.#change((changes, connection) => (on ? changes.make(connection, { batchSize: null, whatifs: [whatif] }) : changes.remove(connection, whatif)));
  }

  /** Make several changes as one undo step. */
  applyTogether(question: Question): Promise<void> {
    return this.#change(async (changes, connection) => {
      const applied = appliedOf(this.#current?.code);
      const left = { batchSize: question.batchSize === applied.batchSize ? null : question.batchSize, whatifs: question.whatifs.filter((one) => !applied.whatifs.includes(one)) };
      return left.batchSize === null && left.whatifs.length === 0 ? NOTHING : changes.make(connection, left);
    });
  }

  /** Revert the latest change. */
  takeBack(): Promise<void> {
    return this.#change((changes, connection) => changes.takeBack(connection));
  }

  /** The edits that a change would make. Empty if the preview fails. */
  async previewed(question: Question): Promise<readonly PreviewEdit[]> {
    const { known, connection } = this.#both();
    try {
      return (await connection.request(METHODS.preview, { uri: known.uri.toString(), ...question })).edits;
    } catch {
      return [];
    }
  }

  /** Measure the changes in the code and compare them with their prediction. */
  verify(): Promise<void> {
    return this.#errand("verifying", async (known, connection, token) => {
      const question = known.code?.verify;
      if (!question) throw new Error("The code contains no change made by Skyline: there is nothing to verify.");
      known.verified = null;
      const measured = await connection.request(METHODS.verify, { uri: known.uri.toString(), ...question }, token);
      // Meanwhile the change may have been taken back.
      if (asksTheSame(known.code?.verify, question)) known.verified = measured;
    });
  }

  /** Predict the script on GPUs, which need not be present. Without names, on the common ones. */
  devices(gpus: readonly string[] = []): Promise<void> {
    return this.#errand("comparing", async (known, connection, token) => {
      known.devices = await connection.request(METHODS.devices, { uri: known.uri.toString(), gpus }, token);
    });
  }

  /** Fetch the clusters and models to plan for. */
  async planChoices(): Promise<void> {
    const { known, connection } = this.#both();
    await known.planning.offer(connection);
  }

  /** Rank strategies on a cluster, which need not be present. */
  async plan(asked: PlanAsked): Promise<void> {
    const { known, connection } = this.#both();
    const source = new vscode.CancellationTokenSource();
    await known.planning.plan(connection, asked, source.token);
    source.dispose();
  }

  /** Open a row of the plan as a timeline, or close it. */
  async openRow(row: number): Promise<void> {
    const { known, connection } = this.#both();
    await known.planning.open(connection, row);
  }

  /** Write the timeline of a row of the plan to a file. */
  async writeRow(row: number, file: string): Promise<void> {
    const { known, connection } = this.#both();
    await known.planning.write(connection, row, file);
  }

  /** Send a request about the watched training or the search by trials. */
  async others(ask: (runs: Runs, connection: Connection) => Promise<void>): Promise<void> {
    const { known, connection } = this.#both();
    await ask(known.others, connection);
  }

  /** Find the combination with the highest throughput. */
  async best(): Promise<void> {
    const { known, connection } = this.#both();
    await this.#asked(known, async () => {
      known.best = await connection.request(METHODS.best, { uri: known.uri.toString() });
    });
    this.#changed.fire();
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }

  #stage(): Stage {
    const { phase } = this.session.state;
    if (phase === "trouble") return this.#current?.profile ? "ready" : "trouble";
    if (!this.#current) return "idle";
    if (this.#current.profile) return "ready";
    if (phase !== "running") return "starting";
    if (this.#current.progress) return "profiling";
    if (this.#current.entry?.itself === false) return "module";
    return vscode.workspace.isTrusted ? "unprofiled" : "untrusted";
  }

  /** Show a script. For a module, show the script that trains with it if there is only one candidate or run. */
  async #enter(known: Known, connection: Connection): Promise<void> {
    known.entry = await entryOf(known.uri, connection);
    const scripts = known.entry.scripts.map((uri) => this.#of(vscode.Uri.parse(uri)));
    const shown = known.entry.itself ? known : scripts.length === 1 ? scripts[0] : scripts.find(({ profile, progress }) => profile ?? progress);
    if (shown && shown !== known && this.#current === known) {
      this.#current = shown;
      this.#module = known.uri;
    }
    this.#changed.fire();
    if (shown) await this.#refresh(shown);
  }

  /** The names of the known scripts that train with a module. */
  #trainersOf(module: vscode.Uri): string[] {
    const scripts = this.#known.get(module.toString())?.entry?.scripts ?? [];
    return scripts.map((uri) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri)));
  }

  /** Clear the progress of all scripts: the server stopped or is restarting. */
  #interrupted(): void {
    for (const known of this.#known.values()) {
      Object.assign(known, { progress: "", verifying: false, comparing: false });
      known.planning.interrupted();
      known.others.interrupted();
    }
    this.#changed.fire();
  }

  /** Request everything from a server that was just started. */
  async #askAgain(known: Known): Promise<void> {
    if (known.isTrace) await this.session.connection?.request(METHODS.open, { uri: known.uri.toString() });
    await this.#refresh(known);
  }

  async #refresh(known: Known): Promise<void> {
    const connection = this.session.connection;
    if (!connection) return;
    const params = { uri: known.uri.toString() };
    const [profile, whatifs, code] = await Promise.all([
      connection.request(METHODS.profile, params),
      connection.request(METHODS.whatifs, params),
      known.isTrace ? null : connection.request(METHODS.codeChanges, params),
    ]);
    const another = profile !== null && profile.id !== known.profile?.id;
    this.#codeChanged(known, code);
    if (another && known.profile) known.others.outdated();
    this.#update(known, another ? { profile, whatifs, outcome: NOTHING, best: null, verified: null } : { profile, whatifs });
    void vscode.commands.executeCommand("setContext", "skyline.profiled", profile !== null);
  }

  async #profileChanged(news: ProfileChanged): Promise<void> {
    const known = this.#of(vscode.Uri.parse(news.uri));
    this.#update(known, { stale: news.stale, error: news.error, usage: news.usage });
    await this.#refresh(known);
  }

  #progressed({ title, stage }: Progress): void {
    for (const known of this.#known.values()) {
      if (title === `Profiling ${nameOf(known.uri)}`) {
        this.#update(known, { progress: stage === null ? "" : stage || known.progress || "starting" });
      }
    }
  }

  /** Store the differences between the code and the profile. A verification of other changes is dropped. */
  #codeChanged(known: Known, code: CodeChanges | null): void {
    const verified = asksTheSame(known.code?.verify, code?.verify) ? known.verified : null;
    this.#update(known, { code, verified });
  }

  async #change(make: (changes: Changes, connection: Connection) => Promise<Outcome>): Promise<void> {
    const { known, connection } = this.#both();
    await this.#asked(known, async () => {
      known.outcome = await make(known.changes, connection);
      this.#codeChanged(known, await connection.request(METHODS.codeChanges, { uri: known.uri.toString() }));
    });
    void vscode.commands.executeCommand("setContext", "skyline.changed", (known.code?.changes.length ?? 0) > 0);
    this.#changed.fire();
  }

  async #errand(
    flag: "verifying" | "comparing",
    run: (known: Known, connection: Connection, token: vscode.CancellationToken) => Promise<void>,
  ): Promise<void> {
    const { known, connection } = this.#both();
    const source = new vscode.CancellationTokenSource();
    this.#update(known, { [flag]: true, outcome: NOTHING });
    await this.#asked(known, () => run(known, connection, source.token));
    source.dispose();
    this.#update(known, { [flag]: false });
  }

  /** Send a request to the server. Errors are shown in the view. */
  async #asked(known: Known, ask: () => Promise<void>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      known.outcome = { refused: [], notice: error instanceof Error ? error.message : String(error) };
      known.progress = "";
      this.#changed.fire();
    }
  }

  #both(): { known: Known; connection: Connection } {
    const known = this.#current;
    const connection = this.session.connection;
    if (!known || !connection) throw new Error("Skyline's server is not running");
    return { known, connection };
  }

  #of(uri: vscode.Uri): Known {
    const key = uri.toString();
    let known = this.#known.get(key);
    if (!known) {
      known = nothingKnown(uri, this.marks, () => this.#changed.fire());
      this.#known.set(key, known);
    }
    return known;
  }

  #update(known: Known, news: Partial<Known>): void {
    Object.assign(known, news);
    this.#changed.fire();
  }
}

/** The scripts that can profile a file. If the server does not answer, the file itself: its run then shows the error. */
async function entryOf(uri: vscode.Uri, connection: Connection): Promise<EntryScripts> {
  try {
    return await connection.request(METHODS.entryScripts, { uri: uri.toString() });
  } catch {
    return { itself: true, scripts: [] };
  }
}

/** The server's name for a script: the target file's name if the editor opened a symbolic link. */
function nameOf(uri: vscode.Uri): string {
  try {
    return path.basename(fs.realpathSync(uri.fsPath));
  } catch {
    return path.basename(uri.fsPath);
  }
}
