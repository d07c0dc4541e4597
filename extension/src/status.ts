/** The status item of Python files: interpreter, device and age of the profile. */

import * as vscode from "vscode";
import type { Desk } from "./scripts/desk";
import { PYTHON_CELLS } from "./editor/source";
import type { Session } from "./server/session";

export function statusItem(session: Session, desk: Desk): vscode.Disposable {
  const item = vscode.languages.createLanguageStatusItem("skyline", [{ language: "python", scheme: "file" }, PYTHON_CELLS]);
  item.name = "Skyline";
  const show = (): void => {
    const { phase, environment, trouble } = session.state;
    const python = environment ? `Python ${environment.version} (${environment.prefix})` : "";
    item.busy = phase === "starting" || desk.state.progress !== "";
    item.severity = phase === "trouble" ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
    item.text = phase === "trouble" ? "Skyline cannot run" : phase === "off" ? "Skyline: waiting for a training script" : `Skyline: ${python}`;
    item.detail = trouble?.message ?? details(session, desk);
    item.command = trouble?.fix ?? { title: "Select Interpreter", command: "skyline.selectInterpreter", tooltip: environment?.executable ?? "" };
  };
  show();
  return vscode.Disposable.from(item, session.onDidChange(show), desk.onDidChange(show));
}

function details(session: Session, desk: Desk): string {
  const { environment } = session.state;
  const { profile } = desk;
  const parts = [
    environment ? `from ${environment.origin}` : "",
    environment?.torch ? `PyTorch ${environment.torch}` : "",
    profile ? `${profile.device.name}, profiled ${age(profile.created, Date.now())}` : "",
    vscode.workspace.isTrusted ? "" : "not trusted: saved profiles only",
  ];
  return parts.filter(Boolean).join(" · ");
}

/** Age of a profile: `just now`, `5 min ago`, `3 h ago`, or the date. */
export function age(created: string, nowMs: number): string {
  const minutes = Math.floor((nowMs - Date.parse(created)) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return `on ${new Date(created).toLocaleDateString()}`;
}
