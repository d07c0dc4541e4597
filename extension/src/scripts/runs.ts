/** The watched training of a script, followed while it runs, and the search for the fastest combination by trials. */

import { METHODS, type TuneProgress } from "../protocol";
import type { Connection } from "../server/client";
import { NO_RUNS, type RunsState, type SearchAsked } from "../view/runs-state";

const FOLLOW_MS = 2_000;

export class Runs {
  #state = NO_RUNS;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly uri: string,
    private readonly changed: () => void,
  ) {}

  get state(): RunsState {
    return this.#state;
  }

  /** Fetch the latest watched run. With `follow`, fetch it repeatedly until it ends. */
  async watch(connection: Connection, follow: boolean): Promise<void> {
    this.#stopFollowing();
    if (!follow) return;
    await this.#asking(async () => this.#update({ watched: await connection.request(METHODS.watched, { uri: this.uri }), reason: "" }));
    const { watched, reason } = this.#state;
    if (!reason && watched && watched.state !== "ended") this.#timer = setTimeout(() => void this.watch(connection, true), FOLLOW_MS);
  }

  /** Fetch the trials of the last search, which may have run in a terminal. */
  async trials(connection: Connection): Promise<void> {
    if (this.#state.searching) return;
    await this.#asking(async () => this.#update({ trials: await connection.request(METHODS.tuned, { uri: this.uri }), reason: "" }));
  }

  /** Search within limits. `skyline.cancel` ends the search; the trials so far are then the result. */
  async search(connection: Connection, asked: SearchAsked): Promise<void> {
    this.#update({ searching: true, found: null, reason: "" });
    await this.#asking(async () => this.#update({ found: await connection.request(METHODS.tune, { uri: this.uri, ...asked }) }));
    this.#update({ searching: false });
  }

  /** Handle the server's notification of a trial. */
  moved(trials: TuneProgress): void {
    this.#update({ trials });
  }

  /** Drop the trials, because they belong to an earlier profile. */
  outdated(): void {
    if (!this.#state.searching) this.#update({ trials: null, found: null });
  }

  /** Handle the end of the server: no search or watched run continues. */
  interrupted(): void {
    this.#stopFollowing();
    this.#update({ searching: false });
  }

  #stopFollowing(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #asking(ask: () => Promise<void>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      this.#update({ reason: error instanceof Error ? error.message : String(error) });
    }
  }

  #update(news: Partial<RunsState>): void {
    this.#state = { ...this.#state, ...news };
    this.changed();
  }
}
