import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import type * as vscode from "vscode";
import type { Session } from "../src/server/session";

class ProcessExecution {
  constructor(readonly process: string, readonly args: readonly string[], readonly options: object) {}
}
class Task {
  constructor(readonly definition: object, readonly scope: object, readonly name: string, readonly source: string, readonly execution: ProcessExecution) {}
}
vi.mock("vscode", () => ({ ProcessExecution, Task, TaskScope: { Workspace: 2 }, Uri: { joinPath: (base: { path: string }, name: string) => ({ path: `${base.path}/${name}` }) }, workspace: { isTrusted: true } }));
const { branchesOf } = await import("../src/commands/check");
const { problemOf } = await import("../src/commands/sweep");
const { skylineTask } = await import("../src/tasks");

const folder = mkdtempSync(join(tmpdir(), "skyline-check-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const git = (...words: string[]): void => void execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", ...words], { cwd: folder, stdio: "pipe" });

describe("the revisions to check against", () => {
  it("are the branches of the repository", async () => {
    expect(await branchesOf(folder)).toBeNull();
    git("init", "-q", "-b", "main");
    expect(await branchesOf(folder)).toEqual([]);
    writeFileSync(join(folder, "train.py"), "import torch\n");
    git("add", "train.py");
    git("commit", "-qm", "first");
    git("branch", "faster");
    git("update-ref", "refs/remotes/origin/main", "HEAD");
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main");
    expect((await branchesOf(folder))?.sort()).toEqual(["faster", "main", "origin/main"]);
  });
});

describe("a task", () => {
  const session = { commandLine: (_: unknown, ...args: string[]) => Promise.resolve({ command: "python", args }) } as unknown as Session;
  const workspace = { uri: { path: "/p", fsPath: "/p" } } as unknown as vscode.WorkspaceFolder;
  const made = async (news: object): Promise<Task> => (await skylineTask(session, { type: "skyline", script: "train.py", ...news }, workspace)) as unknown as Task;

  it.each([
    [{}, "profile train.py", ["profile", "train.py"]],
    [{ gpu: "h100", args: ["--lr", "1"] }, "profile train.py", ["profile", "--gpu", "h100", "train.py", "--lr", "1"]],
    [{ vary: "hidden=64:256:64", gpu: "cpu", page: "/t/sweep.html" }, "sweep train.py over hidden=64:256:64", ["sweep", "--vary", "hidden=64:256:64", "--gpu", "cpu", "--html", "/t/sweep.html", "train.py"]],
    [{ vary: "lr=1,2" }, "sweep train.py over lr=1,2", ["sweep", "--vary", "lr=1,2", "train.py"]],
    [{ base: "origin/main" }, "check train.py against origin/main", ["check", "--base", "origin/main", "train.py"]],
  ])("of %j", async (news, name, args) => {
    const task = await made(news);
    expect([task.name, task.execution.args, task.execution.options]).toEqual([name, args, { cwd: "/p" }]);
  });
});

describe("the setting of a sweep", () => {
  it.each([["hidden=64:1024:64", true], [" width@model.py:12=16:64:8 ", true], ["batch_size=8,16", true], ["hidden", false], ["hidden=", false], ["a=1 b=2", false], ["", false]])("is checked: %s", (text, good) => {
    expect(problemOf(text) === undefined).toBe(good);
  });
});
