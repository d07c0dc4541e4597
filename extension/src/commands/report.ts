/** The report of a script's profile, in a tab of the editor: so it is seen over SSH and in containers too. */

import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { METHODS } from "../protocol";
import type { Desk } from "../scripts/desk";
import type { Connection } from "../server/client";
import type { Session } from "../server/session";
import { reportPage } from "../view/report-page";

/** A tab, and the report in it as the server wrote it. */
interface Shown {
  readonly panel: vscode.WebviewPanel;
  report: string;
}

export class Reports implements vscode.Disposable {
  readonly #shown = new Map<string, Shown>();
  readonly #disposables: readonly vscode.Disposable[];

  constructor(
    private readonly session: Session,
    private readonly desk: Desk,
  ) {
    this.#disposables = [
      session.onProfileChanged(({ uri, profileId }) => {
        if (profileId !== null) void this.#renew(vscode.Uri.parse(uri));
      }),
      vscode.window.onDidChangeActiveColorTheme(() => {
        for (const shown of this.#shown.values()) draw(shown);
      }),
    ];
  }

  /** Show the report of the script on show: in the tab that it has already, else in a new one. */
  async open(): Promise<void> {
    const { uri, profile } = this.desk;
    if (!uri || !profile) throw new Error("There is no profile yet: profile a training script first.");
    const { connection } = this.session;
    if (!connection) throw new Error("The report comes from Skyline's server, which does not run: restart it with “Skyline: Restart Server”.");
    const report = await written(connection, uri);
    const shown = this.#shown.get(uri.toString()) ?? this.#create(uri);
    shown.report = report;
    draw(shown);
    shown.panel.reveal();
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
    for (const { panel } of [...this.#shown.values()]) panel.dispose();
  }

  #create(uri: vscode.Uri): Shown {
    const options = { enableScripts: false, enableFindWidget: true, localResourceRoots: [] };
    const title = `Report: ${path.basename(uri.fsPath)}`;
    const panel = vscode.window.createWebviewPanel("skyline.report", title, vscode.ViewColumn.Active, options);
    const shown = { panel, report: "" };
    this.#shown.set(uri.toString(), shown);
    panel.onDidDispose(() => this.#shown.delete(uri.toString()));
    return shown;
  }

  /** A script with a report on show has been profiled again. */
  async #renew(uri: vscode.Uri): Promise<void> {
    const shown = this.#shown.get(uri.toString());
    const { connection } = this.session;
    if (!shown || !connection) return;
    try {
      shown.report = await written(connection, uri);
      // It may have been closed in the meantime.
      if (this.#shown.has(uri.toString())) draw(shown);
    } catch {
      // The report of the profile before stays; opening it again says what is wrong.
    }
  }
}

/** The report of a script's latest profile, by way of a file of its own: the server runs where the extension does. */
async function written(connection: Connection, uri: vscode.Uri): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "skyline-report-"));
  try {
    const file = path.join(folder, "report.html");
    await connection.execute(METHODS.commandExport, uri.toString(), { format: "html", path: file });
    return await readFile(file, "utf8");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function draw({ panel, report }: Shown): void {
  const { kind } = vscode.window.activeColorTheme;
  const dark = kind === vscode.ColorThemeKind.Dark || kind === vscode.ColorThemeKind.HighContrast;
  panel.webview.html = reportPage(report, dark, randomBytes(16).toString("base64"));
}
