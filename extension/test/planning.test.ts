import { beforeEach, describe, expect, it } from "vitest";
import type * as vscode from "vscode";
import { Planning } from "../src/scripts/planning";
import type { Connection } from "../src/server/client";
import type { PlanState } from "../src/view/plan-state";
import { choices, report, timeline } from "./planned";

const uri = "file:///home/ada/train.py";
const asked = { cluster: "dgx-a100", model: "", gpus: "8", amount: "", budget: "", deadline: "" };
const token = {} as vscode.CancellationToken;

let requests: [string, unknown][] = [];
let answers: Record<string, () => unknown> = {};
let states: PlanState[] = [];
let planning: Planning;
const connection = {
  request: async (method: string, params: unknown) => {
    requests.push([method, params]);
    await Promise.resolve();
    return answers[method]?.();
  },
} as unknown as Connection;

beforeEach(() => {
  [requests, states] = [[], []];
  answers = { "skyline/planChoices": () => choices, "skyline/plan": () => report, "skyline/planTimeline": () => timeline };
  planning = new Planning(uri, () => states.push(planning.state));
});

describe("a plan", () => {
  it("asks for the choices once", async () => {
    await planning.offer(connection);
    await planning.offer(connection);
    expect(requests).toEqual([["skyline/planChoices", { uri }]]);
    expect(planning.state.choices).toEqual(choices);
  });

  it("is in progress until the answer arrives", async () => {
    await planning.plan(connection, asked, token);
    expect(states.map((state) => [state.planning, state.report !== null])).toEqual([[true, false], [true, true], [false, true]]);
    expect(requests).toEqual([["skyline/plan", { uri, ...asked }]]);
  });

  it("that is refused shows the reason and can be requested again", async () => {
    answers["skyline/plan"] = () => { throw new Error("no cluster dgx-z is known. There are: …"); };
    await planning.plan(connection, asked, token);
    expect(planning.state).toMatchObject({ planning: false, report: null, reason: "no cluster dgx-z is known. There are: …" });
    answers["skyline/plan"] = () => report;
    await planning.plan(connection, asked, token);
    expect(planning.state).toMatchObject({ reason: "", report });
  });

  it("ends with the server", async () => {
    const waiting = planning.plan(connection, asked, token);
    planning.interrupted();
    expect(planning.state.planning).toBe(false);
    await waiting;
  });
});

describe("a row", () => {
  it("opens as its timeline, and closes on a second click", async () => {
    await planning.plan(connection, asked, token);
    await planning.open(connection, 2);
    expect(planning.state.opened).toEqual({ row: 2, timeline });
    expect(requests.at(-1)).toEqual(["skyline/planTimeline", { plan: { uri, ...asked }, row: 2, most: 300 }]);
    await planning.open(connection, 2);
    expect(planning.state.opened).toBeNull();
  });

  it("does not show the timeline of the row opened before", async () => {
    await planning.plan(connection, asked, token);
    const first = planning.open(connection, 1);
    answers["skyline/planTimeline"] = () => ({ ...timeline, end_ms: 92 });
    await Promise.all([first, planning.open(connection, 2)]);
    expect(planning.state.opened).toMatchObject({ row: 2, timeline: { end_ms: 92 } });
  });

  it("is written to a file", async () => {
    await planning.plan(connection, asked, token);
    await planning.write(connection, 1, "/tmp/row.json.gz");
    expect(requests.at(-1)).toEqual(["skyline/planExport", { plan: { uri, ...asked }, row: 1, path: "/tmp/row.json.gz" }]);
  });
});
