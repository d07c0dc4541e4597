import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as editor from "./editor";

vi.mock("vscode", async () => (await import("./editor")).vscode());

import type * as vscode from "vscode";
import type { EntryScripts } from "../src/protocol";
import { RememberedRuns } from "../src/launch/remembered";
import { OpenSource } from "../src/editor/source";
import { Desk } from "../src/scripts/desk";
import type { Session } from "../src/server/session";

const train = "file:///home/ada/train.py";
const data = "file:///home/ada/data.py";
const document = (uri: string, languageId = "python"): OpenSource =>
  OpenSource.of({ uri: editor.Uri.parse(uri), languageId, lineCount: 2, getText: () => "import torch\n" } as unknown as vscode.TextDocument);

/** A session with a scripted server. */
function setUp() {
  const emitters = { change: new editor.EventEmitter<unknown>(), profile: new editor.EventEmitter<unknown>(), measuring: new editor.EventEmitter<unknown>(), code: new editor.EventEmitter<unknown>(), progress: new editor.EventEmitter<unknown>(), tuning: new editor.EventEmitter<unknown>() };
  const state = { phase: "running", environment: null, trouble: null as unknown };
  const entries = new Map<string, EntryScripts>();
  const executed: unknown[][] = [];
  const requests: Record<string, () => unknown> = {};
  const answers: Record<string, (uri: string) => unknown> = {
    "skyline.profile": (uri) => ({ status: "started", path: null, script: uri }),
    "skyline.cancel": () => ({ status: "cancelled", path: null, script: null }),
  };
  const connection = {
    request: async (method: string, { uri }: { uri: string }) => {
      await Promise.resolve();
      if (method === "skyline/entryScripts") return entries.get(uri) ?? { itself: true, scripts: [] };
      return requests[method]?.() ?? null;
    },
    execute: async (command: string, uri: string, options?: unknown) => {
      executed.push([command, uri, options]);
      await Promise.resolve();
      return answers[command]?.(uri);
    },
  };
  const session = { state, connection, need: () => Promise.resolve(connection), onDidChange: emitters.change.event, onProfileChanged: emitters.profile.event, onMeasuring: emitters.measuring.event, onCodeChanged: emitters.code.event, onProgress: emitters.progress.event, onTuning: emitters.tuning.event };
  const kept = new Map<string, unknown>();
  const runs = new RememberedRuns({ keys: () => [...kept.keys()], get: (key) => kept.get(key), update: async (key, value) => { kept.set(key, value); await Promise.resolve(); } });
  const desk = new Desk(session as unknown as Session, { set: () => undefined } as never, runs);
  return { desk, state, emitters, entries, executed, answers, requests };
}

beforeEach(() => {
  editor.picked.title = null;
});

describe("a run", () => {
  it("ends when its progress ends", async () => {
    const { desk, emitters } = setUp();
    await desk.follow(document(train));
    await desk.run();
    expect(desk.state.stage).toBe("profiling");
    emitters.progress.fire({ title: "Profiling train.py", stage: "record" });
    expect(desk.state.progress).toBe("record");
    emitters.progress.fire({ title: "Profiling train.py", stage: null });
    expect(desk.state.stage).toBe("unprofiled");
  });

  it("that the server refuses shows the reason and no progress", async () => {
    const { desk, answers } = setUp();
    answers["skyline.profile"] = () => { throw new Error("no script trains with it"); };
    await desk.follow(document(train));
    await desk.run();
    expect(desk.state.progress).toBe("");
    expect(desk.state.trouble?.message).toBe("no script trains with it");
  });

  it.each([{ status: "idle", script: null }, { status: "started", script: "file:///home/ada/other.py" }])("that does not start shows no progress: %j", async (answer) => {
    const { desk, answers } = setUp();
    answers["skyline.profile"] = () => ({ path: null, ...answer });
    await desk.follow(document(train));
    await desk.run();
    expect(desk.state.stage).toBe("unprofiled");
  });

  it("shows no progress after the server has ended", async () => {
    const { desk, state, emitters } = setUp();
    await desk.follow(document(train));
    await desk.run();
    Object.assign(state, { phase: "trouble", trouble: { message: "gone" } });
    emitters.change.fire(state);
    expect([desk.state.stage, desk.state.progress]).toEqual(["trouble", ""]);
    Object.assign(state, { phase: "running", trouble: null });
    emitters.change.fire(state);
    expect(desk.state.stage).toBe("unprofiled");
  });

  it("that the server no longer knows ends when it is cancelled", async () => {
    const { desk, answers } = setUp();
    answers["skyline.cancel"] = () => ({ status: "idle", path: null, script: null });
    await desk.follow(document(train));
    await desk.run();
    await desk.cancel();
    expect(desk.state.stage).toBe("unprofiled");
  });

  it("keeps its arguments for the next run, and shows them", async () => {
    const { desk, executed } = setUp();
    await desk.follow(document(train));
    await desk.run({ args: ["--data", "my data"] });
    await desk.run();
    expect(executed.map(([, , options]) => options)).toEqual([{ args: ["--data", "my data"] }, { args: ["--data", "my data"] }]);
    expect(desk.state.arguments).toBe("--data 'my data'");
    await desk.run(null);
    expect(executed.at(-1)?.[2]).toEqual({});
    expect(desk.state.arguments).toBe("");
  });

  it("that fails for its arguments offers to enter them, with the script's usage text", async () => {
    const { desk, emitters } = setUp();
    await desk.follow(document(train));
    emitters.profile.fire({ uri: train, stale: false, error: "not accepted: --data\nusage: train.py\nmore", usage: "usage: train.py" });
    const { trouble } = desk.state;
    expect([trouble?.message, trouble?.usage, trouble?.fix?.command]).toEqual(["not accepted: --data", "usage: train.py", "skyline.profileWithArguments"]);
  });
});

describe("a verification", () => {
  const asked = { profileId: "first", batchSize: 64, whatifs: [], removes: [] };
  const code = (verify: unknown): unknown => ({ uri: train, batchSize: null, whatifs: [], removed: [], changes: [], verify });
  const report = { schema: "skyline.verify/2" };

  async function verified() {
    const found = setUp();
    found.requests["skyline/profile"] = () => ({ id: "first", lines: [] });
    found.requests["skyline/codeChanges"] = () => code(asked);
    found.requests["skyline/verify"] = () => report;
    await found.desk.follow(document(train));
    await found.desk.verify();
    expect(found.desk.state.verified).toEqual(report);
    return found;
  }

  it("stays while the change that it measured is in the code", async () => {
    const { desk, emitters } = await verified();
    emitters.code.fire(code(asked));
    expect(desk.state.verified).toEqual(report);
  });

  it("goes when its change is taken back, by a button or by an undo in the editor", async () => {
    const { desk, emitters, requests } = await verified();
    emitters.code.fire(code(null));
    expect(desk.state.verified).toBeNull();
    emitters.code.fire(code(asked));
    await desk.verify();
    requests["skyline/revert"] = () => ({ applied: true, reason: null, refused: [] });
    requests["skyline/codeChanges"] = () => code(null);
    await desk.takeBack();
    expect(desk.state.verified).toBeNull();
  });

  it("goes with a new profile", async () => {
    const { desk, emitters, requests } = await verified();
    requests["skyline/profile"] = () => ({ id: "second", lines: [] });
    emitters.profile.fire({ uri: train, stale: false, error: null, usage: null });
    await vi.waitFor(() => expect(desk.profile?.id).toBe("second"));
    expect(desk.state.verified).toBeNull();
  });

  it("that ends after its change was taken back is not shown", async () => {
    const { desk, emitters, requests } = await verified();
    emitters.code.fire(code({ ...asked, batchSize: 128 }));
    requests["skyline/verify"] = () => {
      emitters.code.fire(code(null));
      return report;
    };
    await desk.verify();
    expect(desk.state.verified).toBeNull();
  });
});

describe("a script behind a link", () => {
  let folder = "";
  afterEach(() => rmSync(folder, { recursive: true }));

  it("has the name that the server reports", async () => {
    folder = mkdtempSync(join(tmpdir(), "skyline-desk-"));
    writeFileSync(join(folder, "real.py"), "");
    symlinkSync(join(folder, "real.py"), join(folder, "link.py"));
    const { desk, emitters } = setUp();
    await desk.follow(document(`file://${folder}/link.py`));
    await desk.run();
    emitters.progress.fire({ title: "Profiling real.py", stage: null });
    expect(desk.state.stage).toBe("unprofiled");
  });
});

describe("a module", () => {
  it("with one training script shows and runs that script", async () => {
    const { desk, entries, executed } = setUp();
    entries.set(data, { itself: false, scripts: [train] });
    await desk.follow(document(data));
    expect(desk.state).toMatchObject({ stage: "unprofiled", script: { name: "train.py" }, module: { name: "data.py", scripts: ["train.py"] } });
    await desk.run();
    expect(executed[0]?.[1]).toBe(train);
  });

  it("with several training scripts asks for one, and runs none without a choice", async () => {
    const { desk, entries, executed } = setUp();
    const other = "file:///home/ada/ablation.py";
    entries.set(data, { itself: false, scripts: [train, other] });
    await desk.follow(document(data));
    expect(desk.state).toMatchObject({ stage: "module", script: { name: "data.py" }, module: { scripts: ["train.py", "ablation.py"] } });
    await desk.run();
    expect(executed).toEqual([]);
    expect(editor.picked.rows.map(({ label }) => label)).toEqual(["train.py", "ablation.py"]);
    editor.picked.title = "ablation.py";
    await desk.run();
    expect(executed[0]?.[1]).toBe(other);
    expect(desk.state.script?.name).toBe("ablation.py");
    // The view keeps the running script when the module is opened again.
    await desk.follow(document(train));
    await desk.follow(document(data));
    expect(desk.state.script?.name).toBe("ablation.py");
  });

  it("without a training script has no script", async () => {
    const { desk, entries } = setUp();
    entries.set(data, { itself: false, scripts: [] });
    await desk.follow(document(data));
    expect(desk.state).toMatchObject({ stage: "module", module: { name: "data.py", scripts: [] } });
  });
});

describe("a failed run", () => {
  it("of a script that needs its launcher offers to type the command", async () => {
    const { desk, emitters } = setUp();
    await desk.follow(document(train));
    emitters.profile.fire({ uri: train, profileId: null, headline: "", stale: false, errorLine: null, usage: null, error: "KeyError: 'RANK'\nA launcher starts this script. In an editor, set skyline.profile.launcher." });
    expect(desk.state.trouble?.fix?.title).toBe("Profile with Arguments…");
  });
});

describe("a trace", () => {
  const trace = "file:///home/ada/trace.json";

  it("is shown without code changes, and opened again by a new server", async () => {
    const { desk, emitters, state, requests } = setUp();
    const asked: string[] = [];
    requests["skyline/open"] = () => { asked.push("open"); return { kind: "trace", script: "" }; };
    requests["skyline/profile"] = () => ({ id: "one", lines: [], batch_size: { value: null, knob: null, lives: null } });
    requests["skyline/codeChanges"] = () => { throw new Error("there is no code"); };
    await desk.showTrace(editor.Uri.parse(trace) as unknown as vscode.Uri);
    expect(desk.state).toMatchObject({ stage: "ready", isTrace: true, script: { name: "trace.json" } });
    emitters.change.fire(state);
    await vi.waitFor(() => expect(asked).toEqual(["open", "open"]));
    requests["skyline/codeChanges"] = () => null;
    await desk.follow(document(train));
    expect(desk.state.isTrace).toBe(false);
  });

  it("is not a saved profile", async () => {
    const { desk, requests } = setUp();
    requests["skyline/open"] = () => ({ kind: "profile", script: "/home/ada/train.py" });
    await expect(desk.showTrace(editor.Uri.parse(trace) as unknown as vscode.Uri)).rejects.toThrow("trace.json is a saved profile. It is shown with its script, /home/ada/train.py.");
    expect(desk.uri).toBeNull();
  });
});

describe("a settings file", () => {
  it("in the editor shows the script that reads its batch size from the file", async () => {
    const { desk, requests } = setUp();
    const other = "file:///home/ada/other.py";
    const lives = { file: "/home/ada/config.yaml", line: 2, key: "batch_size", text: "16", column: 12 };
    requests["skyline/profile"] = () => ({ id: "one", lines: [], batch_size: { value: 16, knob: null, lives } });
    await desk.follow(document(train));
    requests["skyline/profile"] = () => null;
    await desk.follow(document(other));
    expect(desk.uri?.toString()).toBe(other);
    await desk.follow(document("file:///home/ada/unrelated.yaml", "yaml"));
    expect(desk.uri?.toString()).toBe(other);
    await desk.follow(document("file:///home/ada/config.yaml", "yaml"));
    expect(desk.uri?.toString()).toBe(train);
  });
});
