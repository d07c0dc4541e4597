/** How each script was run last, kept with the workspace. */

import type { RunOptions } from "./configurations";

/** Where it is kept: the workspace's own store. */
export interface Store {
  keys(): readonly string[];
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

const PREFIX = "run ";

export class RememberedRuns {
  constructor(private readonly store: Store) {}

  /** What a script was given last; null: nothing, so that the settings count. */
  of(uri: string): RunOptions | null {
    return (this.store.get(PREFIX + uri) as RunOptions | undefined) ?? null;
  }

  /** Keep it; null: the settings count again. */
  async keep(uri: string, options: RunOptions | null): Promise<void> {
    await this.store.update(PREFIX + uri, options ?? undefined);
  }

  /** All of them by the script's uri, as a server wants them when it starts. */
  get all(): Readonly<Record<string, RunOptions>> {
    const keys = this.store.keys().filter((key) => key.startsWith(PREFIX));
    return Object.fromEntries(keys.flatMap((key) => {
      const options = this.of(key.slice(PREFIX.length));
      return options ? [[key.slice(PREFIX.length), options]] : [];
    }));
  }
}
