import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { atLeast, candidates, probe, type Surroundings, UnusableInterpreter } from "../src/python/environment";
import { asTyped, skylineCommand } from "../src/python/command";

const around = (news: Partial<Surroundings> = {}): Surroundings => ({
  configured: null,
  active: null,
  script: "/home/ada/project/sub/train.py",
  roots: ["/home/ada/project"],
  trusted: true,
  platform: "linux",
  exists: () => false,
  ...news,
});
const paths = (news: Partial<Surroundings>): string[] => candidates(around(news)).map((one) => one.path);

describe("the order of interpreters", () => {
  it("has only the setting if it is set", () => {
    expect(paths({ configured: "/opt/python", active: "/env/python" })).toEqual(["/opt/python"]);
  });

  it("is the active environment, the nearest .venv, the PATH", () => {
    const exists = (path: string): boolean => path === "/home/ada/project/.venv/bin/python";
    expect(paths({ active: "/env/python", exists })).toEqual(["/env/python", "/home/ada/project/.venv/bin/python", "python3"]);
  });

  it("has the nearer of two .venvs", () => {
    expect(paths({ exists: () => true })[0]).toBe("/home/ada/project/sub/.venv/bin/python");
  });

  it("has no .venv above the workspace folder", () => {
    expect(paths({ exists: (path) => path.startsWith("/home/ada/.venv") })).toEqual(["python3"]);
  });

  it("has no interpreter from an untrusted workspace", () => {
    const found = paths({ trusted: false, configured: "/home/ada/project/evil", active: "/home/ada/project/.venv/bin/python", exists: () => true });
    expect(found).toEqual(["python3"]);
  });

  it("has the names of Windows", () => {
    expect(paths({ platform: "win32" })).toEqual(["python"]);
  });
});

describe("a probed interpreter", () => {
  const script = new URL("../bundled/probe.py", import.meta.url).pathname;

  it("reports its version", async () => {
    const found = await probe({ path: "python3", origin: "PATH" }, script);
    expect(found.version).toMatch(/^3\.\d+\.\d+$/);
    expect(found.origin).toBe("PATH");
  });

  it("is named in the error if it does not exist", async () => {
    await expect(probe({ path: "/nowhere/python", origin: "setting" }, script)).rejects.toThrow(/There is no Python at \/nowhere\/python \(setting\)/);
  });

  it("is unusable if it is not a Python", async () => {
    await expect(probe({ path: "/bin/echo", origin: "setting" }, script)).rejects.toThrow(UnusableInterpreter);
  });

  it("is killed if it does not answer and ignores the signal to end", async () => {
    const folder = mkdtempSync(join(tmpdir(), "skyline-probe-"));
    const stubborn = join(folder, "python");
    writeFileSync(stubborn, "#!/bin/sh\ntrap '' TERM\nwhile true; do sleep 0.05; done\n", { mode: 0o755 });
    await expect(probe({ path: stubborn, origin: "PATH" }, script, 300)).rejects.toThrow(/python \(PATH\) did not answer within 0.3 s/);
    rmSync(folder, { recursive: true });
  });

  it.each([["3.10.1", true], ["3.9.18", false], ["4.0.0", true]])("%s", (version, enough) => {
    expect(atLeast(version, 3, 10)).toBe(enough);
  });
});

describe("the command line", () => {
  const environment = { executable: "/my envs/bin/python", origin: "PATH", version: "3.12.0", prefix: "x", torch: "2.0", skyline: null, misfit: null };

  it("can be copied into a terminal", () => {
    expect(asTyped(skylineCommand(environment, "/ext/bundled", "fromEnvironment", "lsp"))).toBe("'/my envs/bin/python' /ext/bundled/run_skyline.py lsp");
  });

  it("uses the bundled copy if the setting requires it", () => {
    expect(skylineCommand(environment, "/ext/bundled", "useBundled", "lsp").args).toEqual(["/ext/bundled/run_skyline.py", "--bundled", "lsp"]);
  });
});
