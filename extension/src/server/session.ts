/** The server of this window: started on demand, restarted one at a time. Each problem is reported once. */

import * as vscode from "vscode";
import { asTyped, type CommandLine, type ImportStrategy, skylineCommand } from "../python/command";
import { chooseInterpreter } from "../python/choose";
import type { Environment } from "../python/environment";
import { type CodeChanges, type Measuring, METHODS, type ProfileChanged, type TuneProgress } from "../protocol";
import type { RememberedRuns } from "../launch/remembered";
import { isTimedOut } from "../time-limit";
import type { Trouble } from "../view/messages";
import type { Connection, Progress } from "./client";
import { givenSettings } from "./settings";

export type Phase = "off" | "starting" | "running" | "trouble";

/** The server's state for the status item and the view. */
export interface SessionState {
  readonly phase: Phase;
  readonly environment: Environment | null;
  readonly trouble: Trouble | null;
}

const NOT_TRUSTED = new Set(["skyline.profile", "skyline.verify", "skyline.applyRewrite", "skyline.whatIf"]);
const LOGS = { title: "Show Logs", command: "skyline.showLogs" };
const RESTART = { title: "Restart Server", command: "skyline.restartServer" };
/** Time limit of a start. A cold start from a network drive takes half of it. */
const START_LIMIT_MS = 60_000;

export class Session implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<SessionState>();
  readonly #profileChanged = new vscode.EventEmitter<ProfileChanged>();
  readonly #measuring = new vscode.EventEmitter<Measuring>();
  readonly #tuning = new vscode.EventEmitter<TuneProgress>();
  readonly #codeChanged = new vscode.EventEmitter<CodeChanges>();
  readonly #progress = new vscode.EventEmitter<Progress>();
  readonly onDidChange = this.#changed.event;
  readonly onProfileChanged = this.#profileChanged.event;
  readonly onMeasuring = this.#measuring.event;
  readonly onTuning = this.#tuning.event;
  readonly onCodeChanged = this.#codeChanged.event;
  readonly onProgress = this.#progress.event;

  #state: SessionState = { phase: "off", environment: null, trouble: null };
  #connection: Connection | null = null;
  #line = "";
  #script: vscode.Uri | null = null;
  /** The current start or stop. The next one waits for it. */
  #work: Promise<void> = Promise.resolve();
  #queued: Promise<void> | null = null;

  constructor(
    private readonly bundled: vscode.Uri,
    private readonly keys: readonly string[],
    private readonly runs: RememberedRuns,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  get state(): SessionState {
    return this.#state;
  }

  /** The running server. Null if there is none. */
  get connection(): Connection | null {
    return this.#connection;
  }

  /** Start the server for this script, unless it is running or a start was attempted before. */
  async need(script: vscode.Uri): Promise<Connection | null> {
    if (this.#state.phase === "off") {
      this.#script = script;
      await this.restart(false);
    } else {
      await this.#work;
    }
    return this.#connection;
  }

  /**
   * Search for the interpreter again, and restart if the command line changed or `always` is set.
    *
    * Several calls during a restart cause one further restart.
   */
  restart(always: boolean): Promise<void> {
    if (this.#queued) return this.#queued;
    const queued = this.#work.then(() => {
      this.#queued = null;
      const before = this.#state;
      return (this.#work = this.#restart(always).catch((error: unknown) => this.#failedToStart(error, before)));
    });
    return (this.#queued = queued);
  }

  /** Search for the interpreter again, but only if a server was requested before. */
  async reconsider(): Promise<void> {
    if (this.#state.phase !== "off") await this.restart(false);
  }

  /** Tell the running server that the user has trusted the workspace. */
  async trusted(): Promise<void> {
    await this.#connection?.notify(METHODS.trust, { trusted: true });
    await this.reconsider();
  }

  /** The command line that runs Skyline. Null if there is no usable interpreter. */
  async commandLine(script: vscode.Uri | null, ...args: string[]): Promise<CommandLine | null> {
    const choice = await chooseInterpreter(script, this.#probe, this.log);
    return "environment" in choice ? skylineCommand(choice.environment, this.bundled.fsPath, strategy(), ...args) : null;
  }

  async stop(): Promise<void> {
    await this.#work;
    await this.#disconnect();
    this.#set({ phase: "off", environment: null, trouble: null });
  }

  dispose(): Promise<void> {
    this.#changed.dispose();
    this.#profileChanged.dispose();
    this.#measuring.dispose();
    this.#tuning.dispose();
    this.#codeChanged.dispose();
    this.#progress.dispose();
    return this.#disconnect();
  }

  get #probe(): string {
    return vscode.Uri.joinPath(this.bundled, "probe.py").fsPath;
  }

  async #restart(always: boolean): Promise<void> {
    const before = this.#state;
    if (!this.#connection) this.#set({ phase: "starting", environment: null, trouble: null });
    const choice = await chooseInterpreter(this.#script, this.#probe, this.log);
    if ("trouble" in choice) {
      await this.#disconnect();
      this.log.error(choice.trouble.message);
      this.#fail(choice.trouble, null, before);
      return;
    }
    const { environment } = choice;
    const line = skylineCommand(environment, this.bundled.fsPath, strategy(), "lsp");
    if (!always && this.#connection && asTyped(line) === this.#line) return;
    await this.#disconnect();
    this.#set({ phase: "starting", environment, trouble: null });
    this.#line = asTyped(line);
    this.log.info(`starting: ${this.#line}`);
    try {
      const { connect } = await import("./client");
      this.#connection = await connect(line, this.#options(), START_LIMIT_MS, this.log, {
        profileChanged: (news) => this.#profileChanged.fire(news),
        measuring: (news) => this.#measuring.fire(news),
        tuning: (news) => this.#tuning.fire(news),
        codeChanged: (news) => this.#codeChanged.fire(news),
        progress: (news) => this.#progress.fire(news),
        lost: () => this.#lost(),
        settings: (scope) => this.#settings(scope ?? this.#script),
        allowed: (command) => this.#allowed(command),
      });
      this.#set({ phase: "running", environment, trouble: null });
    } catch (error) {
      this.log.error(`the server did not start: ${String(error)}`);
      const why = isTimedOut(error) ? `did not answer within ${START_LIMIT_MS / 1000} s` : "did not start";
      const message = `Skyline's server ${why} with ${environment.executable}. See the log for the reason, or try this command in a terminal: ${this.#line}`;
      this.#fail({ message, fix: LOGS, more: [RESTART] }, environment, before);
    }
  }

  /** Show the error of a start, even an unexpected one: without a message, the start would seem to hang. */
  async #failedToStart(error: unknown, before: SessionState): Promise<void> {
    this.log.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
    await this.#disconnect().catch((reason: unknown) => this.log.warn(String(reason)));
    const message = `Skyline could not start: ${error instanceof Error ? error.message : String(error)}.`;
    this.#fail({ message, fix: LOGS, more: [RESTART] }, null, before);
  }

  #options(): object {
    return { ...this.#settings(this.#script), trusted: vscode.workspace.isTrusted, scripts: this.runs.all };
  }

  #settings(scope: vscode.Uri | null): Record<string, unknown> {
    return givenSettings(this.keys, scope, this.#state.environment);
  }

  #allowed(command: string): boolean {
    if (vscode.workspace.isTrusted || !NOT_TRUSTED.has(command)) return true;
    void vscode.window.showWarningMessage("Skyline runs nothing until you trust this workspace.", "Manage Trust").then((chosen) => {
      if (chosen) void vscode.commands.executeCommand("workbench.trust.manage");
    });
    return false;
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    await connection?.stop();
  }

  #lost(): void {
    this.#connection = null;
    this.log.error("the server ended unexpectedly");
    this.#fail({ message: "Skyline's server ended unexpectedly.", fix: RESTART, more: [LOGS] }, this.#state.environment, this.#state);
  }

  #fail(trouble: Trouble, environment: Environment | null, before: SessionState): void {
    this.#set({ phase: "trouble", environment, trouble });
    // Show the same message only once, although a restart may fail again.
    if (before.trouble?.message === trouble.message) return;
    const fixes = [...(trouble.fix ? [trouble.fix] : []), ...(trouble.more ?? [])];
    void vscode.window.showErrorMessage(trouble.message, ...fixes.map((fix) => fix.title)).then((chosen) => {
      const fix = fixes.find(({ title }) => title === chosen);
      if (fix) void vscode.commands.executeCommand(fix.command);
    });
  }

  #set(state: SessionState): void {
    this.#state = state;
    this.#changed.fire(state);
  }
}

function strategy(): ImportStrategy {
  return vscode.workspace.getConfiguration("skyline").get<ImportStrategy>("importStrategy", "fromEnvironment");
}
