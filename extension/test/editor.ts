/** A stand-in for the parts of the editor's interface that the tests need. */

import { posix } from "node:path";
import { vi } from "vitest";

export class EventEmitter<T> {
  readonly #listeners = new Set<(event: T) => void>();
  readonly event = (listener: (event: T) => void): { dispose(): void } => {
    this.#listeners.add(listener);
    return { dispose: () => void this.#listeners.delete(listener) };
  };
  fire(event: T): void {
    for (const listener of this.#listeners) listener(event);
  }
  dispose(): void {
    this.#listeners.clear();
  }
}

export class Uri {
  private constructor(readonly scheme: string, readonly path: string) {}
  static parse(text: string): Uri {
    const { protocol, pathname } = new URL(text);
    return new Uri(protocol.slice(0, -1), decodeURIComponent(pathname));
  }
  static file(path: string): Uri {
    return new Uri("file", path);
  }
  static joinPath(base: Uri, ...parts: string[]): Uri {
    return new Uri(base.scheme, posix.join(base.path, ...parts));
  }
  get fsPath(): string {
    return this.path;
  }
  toString(): string {
    return `${this.scheme}://${this.path}`;
  }
}

export const said: string[] = [];
/** The open notebooks. */
export const notebookDocuments: unknown[] = [];
export const picked: { title: string | null; rows: readonly { label: string }[] } = { title: null, rows: [] };

/** The result of `vi.mock("vscode")`. */
export function vscode(): object {
  return {
    EventEmitter,
    Uri,
    NotebookCellKind: { Markup: 1, Code: 2 },
    CancellationTokenSource: class { token = {}; dispose(): void { return; } },
    commands: { executeCommand: vi.fn(() => Promise.resolve()) },
    window: {
      showErrorMessage: (text: string) => {
        said.push(text);
        return Promise.resolve(undefined);
      },
      showQuickPick: (rows: readonly { label: string }[]) => {
        picked.rows = rows;
        return Promise.resolve(rows.find(({ label }) => label === picked.title));
      },
    },
    workspace: {
      isTrusted: true,
      asRelativePath: (uri: Uri) => posix.basename(uri.path),
      getConfiguration: () => ({ get: (_: string, otherwise?: unknown) => otherwise, inspect: () => undefined }),
      getWorkspaceFolder: () => undefined,
      workspaceFolders: undefined,
      notebookDocuments,
      textDocuments: [],
      onDidChangeTextDocument: () => ({ dispose: () => undefined }),
    },
  };
}
