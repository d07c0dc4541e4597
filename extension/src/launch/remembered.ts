/** The last run options of each script, stored with the workspace. */

import type { RunOptions } from "./configurations";

/** The storage: VS Code's workspace state. */
export interface Store {
  keys(): readonly string[];
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

const PREFIX = "run ";

export class RememberedRuns {
  constructor(private readonly store: Store) {}

  /** The last options of a script. Null if there are none, so the settings apply. */
  of(uri: string): RunOptions | null {
    return (this.store.get(PREFIX + uri) as RunOptions | undefined) ?? null;
  }

  /** Store the options of a script. Null: the settings apply again. */
  async keep(uri: string, options: RunOptions | null): Promise<void> {
    await this.store.update(PREFIX + uri, options ?? undefined);
  }

  /** All options by script URI, for the server's initialization options. */
  get all(): Readonly<Record<string, RunOptions>> {
    const keys = this.store.keys().filter((key) => key.startsWith(PREFIX));
    return Object.fromEntries(keys.flatMap((key) => {
      const options = this.of(key.slice(PREFIX.length));
      return options ? [[key.slice(PREFIX.length), options]] : [];
    }));
  }
}
