import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

const editor = vi.hoisted((): { extension: unknown; configured: string | null } => ({ extension: undefined, configured: null }));
vi.mock("vscode", () => ({
  extensions: { getExtension: (name: string) => (name === "ms-python.python" ? editor.extension : undefined) },
  workspace: {
    isTrusted: true,
    workspaceFolders: undefined,
    getConfiguration: () => ({ get: (key: string, otherwise?: unknown) => (key === "interpreter" ? editor.configured : otherwise) }),
    getWorkspaceFolder: () => undefined,
  },
}));

import type * as vscode from "vscode";
import { chooseInterpreter, onActiveEnvironment } from "../src/python/choose";

const never = new Promise<never>(() => undefined);
const active = { path: "/nowhere/env" };
const environments = (news: object = {}): object => ({
  getActiveEnvironmentPath: () => active,
  resolveEnvironment: () => Promise.resolve({ executable: { uri: { fsPath: python } } }),
  onDidChangeActiveEnvironmentPath: () => ({ dispose: () => undefined }),
  ...news,
});
const extension = (exports: unknown): object => ({ activate: () => Promise.resolve(exports) });

let folder = "";
let python = "";
let probe = "";
let warnings: string[] = [];
const log = { warn: (text: string) => warnings.push(text) } as unknown as vscode.LogOutputChannel;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "skyline-choose-"));
  python = join(folder, "python");
  probe = join(folder, "probe.py");
  const told = JSON.stringify({ executable: "", version: "3.12.0", prefix: "x", torch: "2.0", skyline: null, misfit: null });
  writeFileSync(python, `#!/bin/sh\necho '${told}'\n`, { mode: 0o755 });
  writeFileSync(probe, `import json\nprint(json.dumps(json.loads('${told}')))\n`);
  warnings = [];
  editor.configured = null;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** The chosen interpreter, after the time that a user would wait. */
async function chosen(): Promise<string> {
  const choice = chooseInterpreter(null, probe, log);
  await vi.advanceTimersByTimeAsync(60_000);
  vi.useRealTimers();
  const found = await choice;
  return "environment" in found ? `${found.environment.executable} (${found.environment.origin})` : found.trouble.message;
}

describe("an environment without PyTorch", () => {
  it("is never run", async () => {
    const ran = join(folder, "ran");
    mkdirSync(join(folder, "env", "bin"), { recursive: true });
    mkdirSync(join(folder, "env", "lib", "python3.12", "site-packages", "pip"), { recursive: true });
    writeFileSync(join(folder, "env", "pyvenv.cfg"), "version = 3.12.1\n");
    writeFileSync(join(folder, "env", "bin", "python"), `#!/bin/sh\ntouch '${ran}'\n`, { mode: 0o755 });
    editor.configured = join(folder, "env", "bin", "python");
    expect(await chosen()).toBe(`No Python with PyTorch was found: ${editor.configured} has no PyTorch.`);
    expect(existsSync(ran)).toBe(false);
  });
});

describe("the Python extension's environment", () => {
  it("is used if the extension reports it", async () => {
    editor.extension = extension({ environments: environments() });
    expect(await chosen()).toBe(`${python} (Python extension)`);
    expect(warnings).toEqual([]);
  });

  it.each([
    ["the extension does not activate", () => ({ activate: () => Promise.reject(new Error("broken")) }), /broken/],
    ["it throws while it activates", () => ({ activate: () => { throw new Error("broken at once"); } }), /broken at once/],
    ["it never comes up", () => ({ activate: () => never }), /did not answer within 10 s/],
    ["its interface throws", () => extension({ get environments() { throw new Error("no interface"); } }), /no interface/],
    ["the environment throws", () => extension({ environments: environments({ getActiveEnvironmentPath: () => { throw new Error("no path"); } }) }), /no path/],
    ["the environment is never resolved", () => extension({ environments: environments({ resolveEnvironment: () => never }) }), /did not answer within 5 s/],
    ["resolving it fails", () => extension({ environments: environments({ resolveEnvironment: () => Promise.reject(new Error("no environment")) }) }), /no environment/],
  ])("is left out with the reason if %s", async (_, made, reason) => {
    editor.extension = made();
    expect(await chosen()).toMatch(/^python3 \(PATH\)$/);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(reason);
  });

  it("is the interpreter at its path if it cannot be resolved", async () => {
    editor.extension = extension({ environments: environments({ getActiveEnvironmentPath: () => ({ path: python }), resolveEnvironment: () => never }) });
    expect(await chosen()).toBe(`${python} (Python extension)`);
  });

  it("is left out without a warning if the extension has no such interface", async () => {
    editor.extension = extension(undefined);
    expect(await chosen()).toBe("python3 (PATH)");
    expect(warnings).toEqual([]);
  });

  it("is not requested if the setting names an interpreter", async () => {
    editor.configured = python;
    editor.extension = { activate: () => { throw new Error("woken"); } };
    expect(await chosen()).toContain(python);
    expect(warnings).toEqual([]);
  });
});

describe("changes of the environment", () => {
  it("are not followed if the extension fails, with a warning", async () => {
    editor.extension = { activate: () => Promise.reject(new Error("broken")) };
    expect(await onActiveEnvironment(() => undefined, log)).toBeNull();
    expect(warnings[0]).toMatch(/broken/);
  });

  it("are reported once if the extension activates after the choice", async () => {
    let changes = 0;
    editor.extension = { activate: () => new Promise((resolve) => setTimeout(() => resolve({ environments: environments() }), 30_000)) };
    const following = onActiveEnvironment(() => (changes += 1), log);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await following).not.toBeNull();
    expect(changes).toBe(1);
  });
});
