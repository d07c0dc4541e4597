/** The last run options of each script, stored with the workspace. Options with a secret are kept only until the window closes. */

import type { RunOptions } from "./configurations";
import { holdsSecret } from "./secrets";

/** The storage: VS Code's workspace state. */
export interface Store {
  keys(): readonly string[];
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

const PREFIX = "run ";

export class RememberedRuns {
  readonly #unstored = new Map<string, RunOptions>();

  constructor(private readonly store: Store) {}

  /** The last options of a script. Null if there are none, so the settings apply. */
  of(uri: string): RunOptions | null {
    return this.#unstored.get(uri) ?? (this.store.get(PREFIX + uri) as RunOptions | undefined) ?? null;
  }

  /** Store the options of a script. Null: the settings apply again. */
  async keep(uri: string, options: RunOptions | null): Promise<void> {
    this.#unstored.delete(uri);
    const secret = options !== null && holdsSecret(options);
    if (secret) this.#unstored.set(uri, options);
    await this.store.update(PREFIX + uri, secret ? undefined : (options ?? undefined));
  }

  /** All options by script URI, for the server's initialization options. */
  get all(): Readonly<Record<string, RunOptions>> {
    const stored = this.store.keys().filter((key) => key.startsWith(PREFIX)).map((key) => key.slice(PREFIX.length));
    return Object.fromEntries([...stored, ...this.#unstored.keys()].flatMap((uri) => {
      const options = this.of(uri);
      return options ? [[uri, options]] : [];
    }));
  }
}
