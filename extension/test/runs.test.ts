import { beforeEach, describe, expect, it, vi } from "vitest";
import { Runs } from "../src/scripts/runs";
import type { Connection } from "../src/server/client";
import { found, progress, run } from "./ran";

const uri = "file:///home/ada/train.py";
const asked = { budgetSeconds: 300, allow: "exact", resume: false } as const;

let runs: Runs;
let requests: [string, unknown][] = [];
let answers: Record<string, () => unknown> = {};
const connection = {
  request: async (method: string, params: unknown) => {
    requests.push([method, params]);
    await Promise.resolve();
    return answers[method]?.() ?? null;
  },
} as unknown as Connection;

beforeEach(() => {
  vi.useFakeTimers();
  requests = [];
  answers = { "skyline/watched": () => run(), "skyline/tuned": () => progress(), "skyline/tune": () => found() };
  runs = new Runs(uri, () => undefined);
});

describe("a watched run", () => {
  it("is followed until it ends", async () => {
    await runs.watch(connection, true);
    expect(runs.state.watched?.state).toBe("running");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(requests).toHaveLength(2);
    answers["skyline/watched"] = () => run({ state: "ended", exit_code: 0 });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(runs.state.watched?.state).toBe("ended");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(requests).toHaveLength(3);
  });

  it.each(["closed", "interrupted"])("is not followed once the section is %s", async (how) => {
    await runs.watch(connection, true);
    if (how === "closed") await runs.watch(connection, false);
    else runs.interrupted();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(requests).toHaveLength(1);
  });

  it("that cannot be read shows the reason and is not requested again", async () => {
    answers["skyline/watched"] = () => { throw new Error("is not a history"); };
    await runs.watch(connection, true);
    expect(runs.state.reason).toBe("is not a history");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(requests).toHaveLength(1);
  });
});

describe("a search", () => {
  it("shows its trials as they arrive, then its result", async () => {
    const searching = runs.search(connection, asked);
    expect(runs.state.searching).toBe(true);
    runs.moved(progress());
    expect(runs.state.trials?.trials).toHaveLength(2);
    await searching;
    expect(requests).toEqual([["skyline/tune", { uri, ...asked }]]);
    expect(runs.state).toMatchObject({ searching: false, found: { outcome: "faster" } });
  });

  it("that fails shows the reason", async () => {
    answers["skyline/tune"] = () => { throw new Error("The script is being profiled"); };
    await runs.search(connection, asked);
    expect(runs.state).toMatchObject({ searching: false, reason: "The script is being profiled" });
  });

  it("belongs to one profile", async () => {
    await runs.trials(connection);
    expect(runs.state.trials?.trials).toHaveLength(2);
    runs.outdated();
    expect(runs.state.trials).toBeNull();
  });
});
