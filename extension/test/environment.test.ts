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
  it("is the setting alone where there is one", () => {
    expect(paths({ configured: "/opt/python", active: "/env/python" })).toEqual(["/opt/python"]);
  });

  it("then the active environment, the nearest .venv, the PATH", () => {
    const exists = (path: string): boolean => path === "/home/ada/project/.venv/bin/python";
    expect(paths({ active: "/env/python", exists })).toEqual(["/env/python", "/home/ada/project/.venv/bin/python", "python3"]);
  });

  it("the nearer of two .venvs", () => {
    expect(paths({ exists: () => true })[0]).toBe("/home/ada/project/sub/.venv/bin/python");
  });

  it("none above the workspace folder", () => {
    expect(paths({ exists: (path) => path.startsWith("/home/ada/.venv") })).toEqual(["python3"]);
  });

  it("none from a workspace that is not trusted", () => {
    const found = paths({ trusted: false, configured: "/home/ada/project/evil", active: "/home/ada/project/.venv/bin/python", exists: () => true });
    expect(found).toEqual(["python3"]);
  });

  it("by the names that Windows has", () => {
    expect(paths({ platform: "win32" })).toEqual(["python"]);
  });
});

describe("an interpreter that is asked", () => {
  const script = new URL("../bundled/probe.py", import.meta.url).pathname;

  it("tells its version", async () => {
    const found = await probe({ path: "python3", origin: "PATH" }, script);
    expect(found.version).toMatch(/^3\.\d+\.\d+$/);
    expect(found.origin).toBe("PATH");
  });

  it("is named where it is not there", async () => {
    await expect(probe({ path: "/nowhere/python", origin: "setting" }, script)).rejects.toThrow(/There is no Python at \/nowhere\/python \(setting\)/);
  });

  it("is named where it is none", async () => {
    await expect(probe({ path: "/bin/echo", origin: "setting" }, script)).rejects.toThrow(UnusableInterpreter);
  });

  it("is ended where it does not answer, though it does not want to", async () => {
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

  it("can be typed", () => {
    expect(asTyped(skylineCommand(environment, "/ext/bundled", "fromEnvironment", "lsp"))).toBe("'/my envs/bin/python' /ext/bundled/run_skyline.py lsp");
  });

  it("insists on the bundled copy where that is set", () => {
    expect(skylineCommand(environment, "/ext/bundled", "useBundled", "lsp").args).toEqual(["/ext/bundled/run_skyline.py", "--bundled", "lsp"]);
  });
});
