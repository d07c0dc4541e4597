/** Shows the report of a script's profile in an editor tab, which also works over SSH and in containers. */

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

/** A tab and its report as written by the server. */
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

  /** Show the report of the current script in its existing tab or a new one. */
  async open(): Promise<void> {
    const { uri, profile } = this.desk;
    if (!uri || !profile) throw new Error("There is no profile yet: profile a training script first.");
    const { connection } = this.session;
    if (!connection) throw new Error("Skyline's server, which creates the report, is not running. Start it with “Skyline: Restart Server”.");
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
    const panel = pagePanel(`Report: ${path.basename(uri.fsPath)}`);
    const shown = { panel, report: "" };
    this.#shown.set(uri.toString(), shown);
    panel.onDidDispose(() => this.#shown.delete(uri.toString()));
    return shown;
  }

  /** Update the report shown for a script that was profiled again. */
  async #renew(uri: vscode.Uri): Promise<void> {
    const shown = this.#shown.get(uri.toString());
    const { connection } = this.session;
    if (!shown || !connection) return;
    try {
      shown.report = await written(connection, uri);
      // The tab may have been closed in the meantime.
      if (this.#shown.has(uri.toString())) draw(shown);
    } catch {
      // Keep the report of the previous profile. Opening the report again shows the error.
    }
  }
}

/** Shows a page that does not change in its own tab. */
export function showPage(title: string, report: string): void {
  const shown = { panel: pagePanel(title), report };
  const themes = vscode.window.onDidChangeActiveColorTheme(() => draw(shown));
  shown.panel.onDidDispose(() => void themes.dispose());
  draw(shown);
}

function pagePanel(title: string): vscode.WebviewPanel {
  const options = { enableScripts: false, enableFindWidget: true, localResourceRoots: [] };
  return vscode.window.createWebviewPanel("skyline.report", title, vscode.ViewColumn.Active, options);
}

/** The report of a script's latest profile, passed in a temporary file: server and extension share a machine. */
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
