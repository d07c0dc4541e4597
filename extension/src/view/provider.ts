/** The view in the side bar: sends the state to its page and handles the page's messages. */

import * as vscode from "vscode";
import { exportRow } from "../commands/export";
import type { LiveNumber } from "../editor/live-number";
import type { Pointer } from "../editor/pointer";
import type { Desk } from "../scripts/desk";
import type { FromView, ToView } from "./messages";
import { page } from "./page";

/** The commands that buttons of the page may run. */
const COMMANDS = new Set([
  "skyline.profileScript",
  "skyline.profileWithArguments",
  "skyline.cancelRun",
  "skyline.showLater",
  "skyline.openReport",
  "skyline.exportProfile",
  "skyline.comparePrevious",
  "skyline.selectInterpreter",
  "skyline.restartServer",
  "skyline.showLogs",
  "workbench.trust.manage",
]);

export class ViewProvider implements vscode.WebviewViewProvider {
  static readonly id = "skyline.view";
  #view: vscode.WebviewView | null = null;
  #scheduled = false;

  constructor(
    private readonly dist: vscode.Uri,
    private readonly desk: Desk,
    private readonly pointer: Pointer,
    private readonly live: LiveNumber,
    private readonly showDiff: () => Promise<void>,
  ) {
    desk.onDidChange(() => this.#send());
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.#view = view;
    view.webview.options = { enableScripts: true, localResourceRoots: [this.dist] };
    view.webview.onDidReceiveMessage((message: FromView) => void this.#receive(message));
    view.onDidChangeVisibility(() => this.#send());
    view.onDidDispose(() => {
      this.#view = null;
      this.live.clear();
      void this.pointer.point(null);
    });
    view.webview.html = page(view.webview, this.dist);
  }

  /** Send the state once at the end of this turn, even if it changes several times. */
  #send(): void {
    if (this.#scheduled || !this.#view?.visible) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#post({ type: "state", state: this.desk.state });
    });
  }

  #post(message: ToView): void {
    void this.#view?.webview.postMessage(message);
  }

  async #receive(message: FromView): Promise<void> {
    switch (message.type) {
      case "ready":
        this.#send();
        return;
      case "simulate":
        return this.#simulate(message);
      case "live":
        if (message.batchSize === null) this.live.clear();
        else await this.live.show(this.desk.previewed({ batchSize: message.batchSize, whatifs: [] }));
        return;
      case "batchSize":
        await this.desk.setBatchSize(message.batchSize);
        this.live.clear();
        return;
      case "toggle":
        return this.desk.toggle(message.whatif, message.on);
      case "applyTogether":
        return this.desk.applyTogether(message.question);
      case "takeBack":
        return this.desk.takeBack();
      case "diff":
        return this.showDiff();
      case "verify":
        return this.desk.verify();
      case "devices":
        return this.desk.devices();
      case "best":
        return this.desk.best();
      case "planChoices":
        return this.desk.planChoices();
      case "plan":
        return this.desk.plan(message.asked);
      case "planRow":
        return this.desk.openRow(message.row);
      case "watch":
        return this.desk.others((runs, connection) => runs.watch(connection, message.follow));
      case "trials":
        return this.desk.others((runs, connection) => runs.trials(connection));
      case "search":
        return this.desk.others((runs, connection) => runs.search(connection, message.asked));
      case "planPerfetto":
        return this.#perfetto(message.row);
      case "snippet":
        return this.#snippet(message.name, message.how);
      case "open":
        return this.pointer.open(message.place);
      case "point":
        return this.pointer.point(message.place);
      case "command":
        if (COMMANDS.has(message.command)) await vscode.commands.executeCommand(message.command);
    }
  }

  async #simulate(message: Extract<FromView, { type: "simulate" }>): Promise<void> {
    try {
      const estimate = await this.desk.simulate(message.question, message.curve);
      this.#post({ type: "estimate", id: message.id, estimate, reason: "" });
    } catch (error) {
      this.#post({ type: "estimate", id: message.id, estimate: null, reason: error instanceof Error ? error.message : String(error) });
    }
  }

  async #perfetto(row: number): Promise<void> {
    try {
      await exportRow(this.desk, row);
    } catch (error) {
      void vscode.window.showErrorMessage(`Skyline: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  async #snippet(name: string, how: "copy" | "open"): Promise<void> {
    const snippet = this.desk.state.refused.find((refused) => refused.name === name)?.snippet;
    if (!snippet) return;
    if (how === "copy") {
      await vscode.env.clipboard.writeText(snippet);
      vscode.window.setStatusBarMessage("Skyline: snippet copied", 3000);
    } else {
      const document = await vscode.workspace.openTextDocument({ language: "python", content: snippet });
      await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
    }
  }
}
