/** The script on show: what is known about it, and what the person asks of it. */

import * as path from "node:path";
import * as vscode from "vscode";
import { importsTorch } from "../editor/training-file";
import type { Marks } from "../editor/marks";
import {
  METHODS,
  type BestReport,
  type DevicesReport,
  type EstimateReport,
  type PreviewEdit,
  type ProfileChanged,
  type ProfileReport,
  type Question,
  type VerifyReport,
  type WhatIfReport,
} from "../protocol";
import type { Connection, Progress } from "../server/client";
import type { Session } from "../server/session";
import type { Stage, ViewState } from "../view/messages";
import { Changes, type Outcome } from "./changes";
import { isEmpty, nameOf, UNCHANGED } from "./history";
import type { KeptChanges } from "./kept";

/** What is kept of each script while another one is on show. */
interface Known {
  readonly uri: vscode.Uri;
  readonly changes: Changes;
  profile: ProfileReport | null;
  whatifs: WhatIfReport | null;
  stale: boolean;
  error: string | null;
  /** The run under way in words; empty: none. */
  progress: string;
  outcome: Outcome;
  verifying: boolean;
  verified: VerifyReport | null;
  comparing: boolean;
  devices: DevicesReport | null;
  best: BestReport | null;
}

const NOTHING: Outcome = { refused: [], notice: "" };

export class Desk implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.#changed.event;
  readonly #known = new Map<string, Known>();
  readonly #disposables: readonly { dispose(): unknown }[];
  #current: Known | null = null;

  constructor(
    private readonly session: Session,
    private readonly marks: Marks,
    private readonly kept: KeptChanges,
  ) {
    this.#disposables = [
      this.#changed,
      session.onDidChange(({ phase }) => {
        if (phase === "running") for (const known of this.#known.values()) void this.#refresh(known);
        else this.#changed.fire();
      }),
      session.onProfileChanged((news) => void this.#profileChanged(news)),
      session.onMeasuring(({ uri, text }) => this.#update(this.#of(vscode.Uri.parse(uri)), { progress: text })),
      session.onProgress((news) => this.#progressed(news)),
      vscode.workspace.onDidChangeTextDocument(() => {
        for (const known of this.#known.values()) if (known.changes.edited()) this.#changed.fire();
      }),
    ];
  }

  /** The script on show. */
  get uri(): vscode.Uri | null {
    return this.#current?.uri ?? null;
  }

  get profile(): ProfileReport | null {
    return this.#current?.profile ?? null;
  }

  /** The profiles of all scripts that were looked at, the one on show first. */
  get profiles(): readonly ProfileReport[] {
    const others = [...this.#known.values()].filter((known) => known !== this.#current);
    return [this.#current, ...others].flatMap((known) => known?.profile ?? []);
  }

  /** The files as they were before the first change of the script on show. */
  get original(): ReadonlyMap<string, string> {
    return this.#current?.changes.original ?? new Map<string, string>();
  }

  /** Everything the view shows. */
  get state(): ViewState {
    const known = this.#current;
    const { trouble } = this.session.state;
    const failed = known?.error ? { message: known.error, fix: { title: "Profile Again", command: "skyline.profileScript" } } : null;
    return {
      stage: this.#stage(),
      script: known ? { uri: known.uri.toString(), name: path.basename(known.uri.fsPath) } : null,
      trouble: trouble ?? failed,
      progress: known?.progress ?? "",
      stale: known?.stale ?? false,
      trusted: vscode.workspace.isTrusted,
      profile: known?.profile ?? null,
      whatifs: known?.whatifs ?? null,
      applied: known?.changes.applied ?? UNCHANGED,
      refused: known?.outcome.refused ?? [],
      notice: known?.outcome.notice ?? "",
      verifying: known?.verifying ?? false,
      verified: known?.verified ?? null,
      comparing: known?.comparing ?? false,
      devices: known?.devices ?? null,
      best: known?.best ?? null,
    };
  }

  /** Show the script of an editor, if it is one: or keep the one on show where the file is a part of that. */
  async follow(document: vscode.TextDocument | undefined): Promise<void> {
    if (document?.languageId !== "python" || document.uri.scheme !== "file") return;
    if (!vscode.workspace.getConfiguration("skyline", document.uri).get<boolean>("enable", true)) return;
    const isPart = this.#current?.profile?.lines.some(({ file }) => file === document.uri.fsPath) ?? false;
    if (!importsTorch(document.getText())) return;
    const known = this.#of(document.uri);
    if (!isPart) {
      this.#current = known;
      this.#changed.fire();
    }
    if (await this.session.need(document.uri)) await this.#refresh(known);
  }

  /** Run the script on show; its progress and result come by themselves. */
  async run(): Promise<void> {
    const entry = vscode.workspace.getConfiguration("skyline", this.uri).get<string | null>("profile.entryPoint");
    const script = entry && this.uri ? this.#of(this.#besides(this.uri, entry)) : this.#current;
    if (!script) return;
    this.#current = script;
    const connection = await this.session.need(script.uri);
    if (!connection) return;
    this.#update(script, { progress: "starting", error: null, outcome: NOTHING });
    await this.#asked(script, async () => {
      await connection.execute(METHODS.commandProfile, script.uri.toString());
    });
  }

  /** Stop whatever runs for the script on show. */
  async cancel(): Promise<void> {
    const known = this.#current;
    if (known) await this.session.connection?.execute(METHODS.commandCancel, known.uri.toString());
  }

  /** What would come of this change over what was profiled. */
  async simulate(question: Question, curve: boolean): Promise<EstimateReport> {
    const { known, connection } = this.#both();
    return connection.request(METHODS.simulate, { uri: known.uri.toString(), ...question, ...(curve ? { curve } : {}) });
  }

  /** Write a batch size into the code. */
  setBatchSize(batchSize: number): Promise<void> {
    return this.#change((changes, connection) => changes.make(connection, { batchSize, whatifs: [] }));
  }

  /** Put a what-if into the code, or take it out. */
  toggle(whatif: string, on: boolean): Promise<void> {
    return this.#change(async (changes, connection) => {
      const same = changes.applied.whatifs.find((one) => nameOf(one) === nameOf(whatif));
      if (same && (!on || same !== whatif)) {
        const outcome = await changes.remove(connection, same);
        if (!on || outcome.notice) return outcome;
      }
      return changes.make(connection, { batchSize: null, whatifs: [whatif] });
    });
  }

  /** Put several changes into the code as one undo step; what stands in their way is taken out first. */
  applyTogether(question: Question): Promise<void> {
    return this.#change(async (changes, connection) => {
      const contradicts = (whatif: string): boolean => question.whatifs.some((one) => nameOf(one) === nameOf(whatif) && one !== whatif);
      while (changes.applied.whatifs.some(contradicts)) {
        const outcome = await changes.takeBack(connection);
        if (outcome.notice) return outcome;
      }
      const left = { batchSize: question.batchSize === changes.applied.batchSize ? null : question.batchSize, whatifs: question.whatifs.filter((one) => !changes.applied.whatifs.includes(one)) };
      return isEmpty(left) ? NOTHING : changes.make(connection, left);
    });
  }

  /** Take the latest change back. */
  takeBack(): Promise<void> {
    return this.#change((changes, connection) => changes.takeBack(connection));
  }

  /** The edits that a change would make; none where it would make none. */
  async previewed(question: Question): Promise<readonly PreviewEdit[]> {
    const { known, connection } = this.#both();
    try {
      return (await connection.request(METHODS.preview, { uri: known.uri.toString(), ...question })).edits;
    } catch {
      return [];
    }
  }

  /** Measure what is in the code against its prediction. */
  verify(): Promise<void> {
    return this.#errand("verifying", async (known, connection, token) => {
      const question = { uri: known.uri.toString(), ...known.changes.applied };
      known.verified = await connection.request(METHODS.verify, question, token);
    });
  }

  /** Predict the script on GPUs that need not be here. */
  devices(): Promise<void> {
    return this.#errand("comparing", async (known, connection, token) => {
      known.devices = await connection.request(METHODS.devices, { uri: known.uri.toString() }, token);
    });
  }

  /** The combination that gets most samples through. */
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
    return vscode.workspace.isTrusted ? "unprofiled" : "untrusted";
  }

  async #refresh(known: Known): Promise<void> {
    const connection = this.session.connection;
    if (!connection) return;
    const params = { uri: known.uri.toString() };
    const [profile, whatifs] = await Promise.all([
      connection.request(METHODS.profile, params),
      connection.request(METHODS.whatifs, params),
    ]);
    const another = profile !== null && profile.id !== known.profile?.id;
    if (another && !known.profile) await known.changes.over(profile.id);
    else if (another && !known.stale) known.changes.settled(profile.id);
    this.#update(known, another ? { profile, whatifs, outcome: NOTHING, best: null } : { profile, whatifs });
    void vscode.commands.executeCommand("setContext", "skyline.profiled", profile !== null);
  }

  async #profileChanged(news: ProfileChanged): Promise<void> {
    const known = this.#of(vscode.Uri.parse(news.uri));
    this.#update(known, { stale: news.stale, error: news.error });
    await this.#refresh(known);
  }

  #progressed({ title, stage }: Progress): void {
    for (const known of this.#known.values()) {
      if (title === `Profiling ${path.basename(known.uri.fsPath)}`) {
        this.#update(known, { progress: stage === null ? "" : stage || known.progress || "starting" });
      }
    }
  }

  async #change(make: (changes: Changes, connection: Connection) => Promise<Outcome>): Promise<void> {
    const { known, connection } = this.#both();
    await this.#asked(known, async () => {
      known.outcome = await make(known.changes, connection);
    });
    void vscode.commands.executeCommand("setContext", "skyline.changed", known.changes.any);
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

  /** Ask the server; a reason why not is shown in the view, where the question came from. */
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
      known = {
        uri,
        changes: new Changes(key, this.marks, this.kept),
        profile: null,
        whatifs: null,
        stale: false,
        error: null,
        progress: "",
        outcome: NOTHING,
        verifying: false,
        verified: null,
        comparing: false,
        devices: null,
        best: null,
      };
      this.#known.set(key, known);
    }
    return known;
  }

  #update(known: Known, news: Partial<Known>): void {
    Object.assign(known, news);
    this.#changed.fire();
  }

  #besides(script: vscode.Uri, entry: string): vscode.Uri {
    if (path.isAbsolute(entry)) return vscode.Uri.file(entry);
    const folder = vscode.workspace.getWorkspaceFolder(script)?.uri ?? vscode.Uri.joinPath(script, "..");
    return vscode.Uri.joinPath(folder, entry);
  }
}
