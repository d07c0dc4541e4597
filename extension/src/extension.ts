/** Activation of the extension. It is cheap: the server starts with the first training script. */

import * as vscode from "vscode";
import { registerCommands } from "./commands/register";
import { Heat } from "./editor/heat";
import { LiveNumber } from "./editor/live-number";
import { Marks } from "./editor/marks";
import { Pointer } from "./editor/pointer";
import { OpenSource } from "./editor/source";
import { importsTorch } from "./editor/training-file";
import { RememberedRuns } from "./launch/remembered";
import { onActiveEnvironment } from "./python/choose";
import { Desk } from "./scripts/desk";
import { DiffView } from "./scripts/diff";
import { Session } from "./server/session";
import { declaredKeys } from "./server/declared-keys";
import { statusItem } from "./status";
import { TaskProvider } from "./tasks";
import { ViewProvider } from "./view/provider";

/** Settings that decide which server runs. */
const STARTS = ["skyline.interpreter", "skyline.importStrategy", "skyline.enable"];

let session: Session | null = null;

export function activate(context: vscode.ExtensionContext): void {
  const started = performance.now();
  const log = vscode.window.createOutputChannel("Skyline", { log: true });
  const at = (folder: string): vscode.Uri => vscode.Uri.joinPath(context.extensionUri, folder);
  const runs = new RememberedRuns(context.workspaceState);
  session = new Session(at("bundled"), declaredKeys(context.extension.packageJSON), runs, log);
  const marks = new Marks();
  const desk = new Desk(session, marks, runs);
  const heat = new Heat();
  const pointer = new Pointer(desk, marks);
  const live = new LiveNumber();
  const diff = DiffView.register(desk);
  const view = new ViewProvider(at("dist"), desk, pointer, live, () => diff.view.show());
  let heated = true;
  const showHeat = (): void => {
    const enabled = heated && vscode.workspace.getConfiguration("skyline").get<boolean>("heat.enable", true);
    heat.show(enabled ? desk.profiles : []);
  };
  const toggleHeat = (): void => {
    heated = !heated;
    showHeat();
  };
  context.subscriptions.push(
    log,
    session,
    marks,
    desk,
    heat,
    live,
    diff.disposable,
    desk.onDidChange(showHeat),
    vscode.window.registerWebviewViewProvider(ViewProvider.id, view),
    vscode.tasks.registerTaskProvider("skyline", new TaskProvider(session)),
    statusItem(session, desk),
    registerCommands(session, desk, diff.view, runs, log, toggleHeat),
    ...follow(session, desk, log),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("skyline.heat")) showHeat();
    }),
  );
  log.info(`activated in ${(performance.now() - started).toFixed(1)} ms`);
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}

/** Listen for the events that start the session or make it search for its interpreter again. */
function follow(session: Session, desk: Desk, log: vscode.LogOutputChannel): vscode.Disposable[] {
  const look = (source: OpenSource | null): void => {
    const training = source?.isPython === true && importsTorch(source.lines.join("\n"));
    void vscode.commands.executeCommand("setContext", "skyline.trainingFile", training);
    desk.follow(source).catch((error: unknown) => log.error(String(error)));
  };
  const again = (): void => void session.reconsider();
  let environments: vscode.Disposable | null = null;
  // Activate the Python extension only once there is a script to run.
  const once = session.onDidChange(({ phase }) => {
    if (phase === "off" || environments) return;
    once.dispose();
    void onActiveEnvironment(again, log).then((disposable) => (environments = disposable));
  });
  // The first save after PyTorch is imported starts the server.
  const saved = (uri: vscode.Uri): void => {
    const source = OpenSource.active();
    if (session.state.phase === "off" && source?.uri.toString() === uri.toString()) look(source);
  };
  look(OpenSource.active());
  return [
    once,
    vscode.window.onDidChangeActiveTextEditor(() => look(OpenSource.active())),
    vscode.window.onDidChangeActiveNotebookEditor(() => look(OpenSource.active())),
    vscode.workspace.onDidSaveTextDocument(({ uri }) => saved(uri)),
    vscode.workspace.onDidSaveNotebookDocument(({ uri }) => saved(uri)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (STARTS.some((section) => change.affectsConfiguration(section))) again();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void session.trusted()),
    vscode.Disposable.from({ dispose: (): void => void environments?.dispose() }),
  ];
}
