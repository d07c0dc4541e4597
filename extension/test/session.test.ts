import { beforeEach, describe, expect, it, vi } from "vitest";
import * as editor from "./editor";

vi.mock("vscode", async () => (await import("./editor")).vscode());
const choose = vi.hoisted(() => vi.fn<() => Promise<unknown>>());
const connect = vi.hoisted(() => vi.fn<() => Promise<unknown>>());
vi.mock("../src/python/choose", () => ({ chooseInterpreter: choose, configuredInterpreter: () => null }));
vi.mock("../src/server/client", () => ({ connect }));

import type * as vscode from "vscode";
import { RememberedRuns } from "../src/launch/remembered";
import { Session } from "../src/server/session";

const environment = { executable: "/env/bin/python", origin: "PATH", version: "3.12.0", prefix: "env", torch: "2.0", skyline: null, misfit: null };
const script = editor.Uri.file("/home/ada/train.py") as unknown as vscode.Uri;
const logged: string[] = [];
const log = Object.fromEntries(["info", "warn", "error"].map((name) => [name, (text: string) => void logged.push(text)])) as unknown as vscode.LogOutputChannel;
const session = (): Session => new Session(editor.Uri.file("/bundled") as unknown as vscode.Uri, [], new RememberedRuns({ keys: () => [], get: () => undefined, update: () => Promise.resolve() }), log);

beforeEach(() => {
  editor.said.length = 0;
  logged.length = 0;
  choose.mockReset().mockResolvedValue({ environment });
  connect.mockReset().mockResolvedValue({ stop: () => Promise.resolve() });
});

describe("a start", () => {
  it("ends with a running server", async () => {
    const one = session();
    expect(await one.need(script)).not.toBeNull();
    expect(one.state.phase).toBe("running");
  });

  it("that fails unexpectedly shows the error and ends", async () => {
    choose.mockRejectedValue(new Error("the interface changed"));
    const one = session();
    expect(await one.need(script)).toBeNull();
    const { phase, trouble } = one.state;
    expect(phase).toBe("trouble");
    expect(trouble?.message).toBe("Skyline could not start: the interface changed.");
    expect([trouble?.fix, ...(trouble?.more ?? [])].map((fix) => fix?.command)).toEqual(["skyline.showLogs", "skyline.restartServer"]);
    expect(editor.said).toEqual([trouble?.message]);
  });

  it("of a server that does not answer shows the time limit and both buttons", async () => {
    // The client's bundle has its own class of this name.
    connect.mockRejectedValue(Object.assign(new Error("the server did not answer within 60 s"), { name: "TimedOut" }));
    const one = session();
    expect(await one.need(script)).toBeNull();
    const { trouble } = one.state;
    expect(trouble?.message).toMatch(/^Skyline's server did not answer within 60 s with \/env\/bin\/python\./);
    expect([trouble?.fix, ...(trouble?.more ?? [])].map((fix) => fix?.title)).toEqual(["Show Logs", "Restart Server"]);
  });

  it("can be repeated after a failure", async () => {
    choose.mockRejectedValueOnce(new Error("once"));
    const one = session();
    await one.need(script);
    await one.restart(true);
    expect(one.state.phase).toBe("running");
    expect(one.connection).not.toBeNull();
  });
});
