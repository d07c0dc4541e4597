/** The language client, loaded when the first training script is opened. */

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, State } from "vscode-languageclient/node";
import { PYTHON_CELLS } from "../editor/source";
import type { CommandLine } from "../python/command";
import { within } from "../time-limit";
import {
  type CodeChanges,
  type Measuring,
  METHODS,
  type ProfileChanged,
  type SkylineCommands,
  type SkylineNotifications,
  type SkylineRequests,
  type TuneProgress,
} from "../protocol";

/** Callbacks from a connection to the session. */
export interface Hooks {
  readonly profileChanged: (news: ProfileChanged) => void;
  readonly measuring: (news: Measuring) => void;
  readonly tuning: (news: TuneProgress) => void;
  readonly codeChanged: (news: CodeChanges) => void;
  readonly progress: (news: Progress) => void;
  /** The server process ended unexpectedly. */
  readonly lost: () => void;
  /** The settings of a scope to send to the server. */
  readonly settings: (scope: vscode.Uri | undefined) => object;
  /** True if a command of a lens or code action may run: some need a trusted workspace. */
  readonly allowed: (command: string) => boolean;
}

/** Progress of a run: its title and its stage, null at the end. */
export interface Progress {
  readonly title: string;
  readonly stage: string | null;
}

/** A running server. */
export interface Connection {
  request<M extends keyof SkylineRequests>(
    method: M,
    params: SkylineRequests[M]["sent"],
    token?: vscode.CancellationToken,
  ): Promise<SkylineRequests[M]["answer"]>;
  notify<M extends keyof SkylineNotifications>(method: M, params: SkylineNotifications[M]): Promise<void>;
  /** Run one of the server's commands on a script. */
  execute<C extends keyof SkylineCommands>(
    command: C,
    uri: string,
    options?: SkylineCommands[C]["sent"],
  ): Promise<SkylineCommands[C]["answer"]>;
  stop(): Promise<void>;
}

/** A client that writes errors only to the log: the session shows them once, with buttons to fix them. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Start a server and initialize the connection. Throws TimedOut if the process does not answer in time. */
export async function connect(
  line: CommandLine,
  options: object,
  limitMs: number,
  log: vscode.LogOutputChannel,
  hooks: Hooks,
): Promise<Connection> {
  const titles = new Map<string | number, string>();
  const run = { command: line.command, args: [...line.args] };
  const client = new QuietClient("skyline", "Skyline", { run, debug: run }, {
    documentSelector: [
      { scheme: "file", language: "python" },
      { notebook: PYTHON_CELLS.notebookType, language: PYTHON_CELLS.language },
    ],
    initializationOptions: options,
    outputChannel: log,
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/.skyline/*.profile.json.gz") },
    // The session reports the error once. The library would restart the server five times and then be silent.
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
    },
    middleware: {
      handleWorkDoneProgress: (token, value, next) => {
        if (value.kind === "begin") titles.set(token, value.title);
        const title = titles.get(token) ?? "";
        hooks.progress({ title, stage: value.kind === "end" ? null : (value.message ?? "") });
        if (value.kind === "end") titles.delete(token);
        next(token, value);
      },
      executeCommand: (command, args, next) => (hooks.allowed(command) ? (next(command, args) as unknown) : undefined),
      provideCodeLenses: async (document, token, next) => {
        const lenses = (await next(document, token)) ?? [];
        return lenses.map(toView);
      },
      resolveCodeLens: async (lens, token, next) => {
        const resolved = await next(lens, token);
        return resolved ? toView(resolved) : resolved;
      },
      workspace: {
        configuration: async (params, token, next) => {
          const sections: unknown = await next(params, token);
          if (!Array.isArray(sections)) return [];
          return params.items.map((item, index) => {
            if (item.section !== "skyline") return sections[index] as object;
            return hooks.settings(item.scopeUri === undefined ? undefined : vscode.Uri.parse(item.scopeUri));
          });
        },
      },
    },
  });
  client.onNotification(METHODS.profileChanged, hooks.profileChanged);
  client.onNotification(METHODS.measuring, hooks.measuring);
  client.onNotification(METHODS.tuning, hooks.tuning);
  client.onNotification(METHODS.codeChanged, hooks.codeChanged);
  client.onDidChangeState(({ oldState, newState }) => {
    if (oldState === State.Running && newState === State.Stopped && !stopping) hooks.lost();
  });
  let stopping = false;
  const stop = async (): Promise<void> => {
    stopping = true;
    try {
      await client.dispose(STOP_TIMEOUT_MS);
    } catch (error) {
      log.warn(`the server did not stop in time: ${String(error)}`);
    }
  };
  try {
    await within(limitMs, "the server", client.start());
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    // The library would send an undefined token as a parameter.
    request: (method, params, token) => (token ? client.sendRequest(method, params, token) : client.sendRequest(method, params)),
    notify: (method, params) => client.sendNotification(method, params),
    execute: (command, uri, options) =>
      client.sendRequest("workspace/executeCommand", { command, arguments: options === undefined ? [uri] : [uri, options] }),
    stop,
  };
}

const STOP_TIMEOUT_MS = 6_000;

/** Commands of this extension for the server's lens commands. The headline opens the view, which has a report button. */
const OURS: Readonly<Record<string, string>> = {
  "skyline.showReport": "skyline.showView",
  "skyline.profile": "skyline.profileScript",
  "skyline.cancel": "skyline.cancelRun",
  "skyline.useLater": "skyline.showLater",
};

/**
 * Replace the command of a lens by one of this extension without arguments, which applies to the script in the editor.
  * The editor drops the arguments of a lens when it requests lenses again, and a click at that moment would fail.
 */
function toView(lens: vscode.CodeLens): vscode.CodeLens {
  const ours = OURS[lens.command?.command ?? ""];
  if (lens.command && ours) lens.command = { title: lens.command.title, command: ours };
  return lens;
}
