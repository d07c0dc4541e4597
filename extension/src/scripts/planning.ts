/** The plan of a script on clusters: the choices, the ranked strategies, and the timeline of the opened row. */

import type * as vscode from "vscode";
import { METHODS } from "../protocol";
import type { Connection } from "../server/client";
import { NO_PLAN, type PlanAsked, type PlanState } from "../view/plan-state";

/** Maximum number of pieces of work, about the width of the view in pixels. */
const MOST = 300;

export class Planning {
  #state = NO_PLAN;

  constructor(
    private readonly uri: string,
    private readonly changed: () => void,
  ) {}

  get state(): PlanState {
    return this.#state;
  }

  /** Fetch the clusters and models once. */
  async offer(connection: Connection): Promise<void> {
    if (this.#state.choices) return;
    await this.#asking(async () => this.#update({ choices: await connection.request(METHODS.planChoices, { uri: this.uri }) }));
  }

  /** Rank the strategies of a question. */
  async plan(connection: Connection, asked: PlanAsked, token: vscode.CancellationToken): Promise<void> {
    this.#update({ asked, planning: true, report: null, reason: "", opened: null });
    await this.#asking(async () => this.#update({ report: await connection.request(METHODS.plan, { uri: this.uri, ...asked }, token) }));
    this.#update({ planning: false });
  }

  /** Open a row, or close it if it is open. */
  async open(connection: Connection, row: number): Promise<void> {
    const { asked } = this.#state;
    if (!asked || this.#state.opened?.row === row) {
      this.#update({ opened: null });
      return;
    }
    this.#update({ opened: { row, timeline: null }, reason: "" });
    await this.#asking(async () => {
      const timeline = await connection.request(METHODS.planTimeline, { plan: { uri: this.uri, ...asked }, row, most: MOST });
      // Meanwhile another row may have been opened.
      if (this.#state.opened?.row === row) this.#update({ opened: { row, timeline } });
    });
  }

  /** Write the timeline of a row for Perfetto. */
  async write(connection: Connection, row: number, path: string): Promise<void> {
    const { asked } = this.#state;
    if (asked) await connection.request(METHODS.planExport, { plan: { uri: this.uri, ...asked }, row, path });
  }

  /** The server has ended: nothing is being planned any more. */
  interrupted(): void {
    this.#update({ planning: false });
  }

  async #asking(ask: () => Promise<void>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      this.#update({ reason: error instanceof Error ? error.message : String(error) });
    }
  }

  #update(news: Partial<PlanState>): void {
    this.#state = { ...this.#state, ...news };
    this.changed();
  }
}
