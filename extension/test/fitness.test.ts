import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Environment } from "../src/python/environment";
import { misfitOf } from "../src/python/fitness";

const environment = (news: Partial<Environment>): Environment => ({
  executable: "/env/bin/python",
  origin: "PATH",
  version: "3.12.0",
  prefix: "env",
  torch: "2.13.0",
  skyline: null,
  misfit: "has no NumPy",
  ...news,
});

describe("an interpreter that cannot run the bundled Skyline", () => {
  it("is named with the reason", () => {
    expect(misfitOf(environment({}), "fromEnvironment")).toBe("/env/bin/python (PATH) has no NumPy");
  });

  it("is accepted if it has Skyline installed, unless the setting requires the bundled one", () => {
    expect(misfitOf(environment({ skyline: "0.1.0" }), "fromEnvironment")).toBeNull();
    expect(misfitOf(environment({ skyline: "0.1.0" }), "useBundled")).toContain("has no NumPy");
  });

  it("is accepted if the bundled Skyline fits", () => {
    expect(misfitOf(environment({ misfit: null }), "useBundled")).toBeNull();
  });
});

/** The file suffix of compiled modules of this interpreter, such as `_core.cpython-311-x86_64-linux-gnu.so`. */
const suffix = execFileSync("python3", ["-c", "import importlib.machinery as m; print(m.EXTENSION_SUFFIXES[0])"], { encoding: "utf8" }).trim();
const [major = "", minor = ""] = execFileSync("python3", ["--version"], { encoding: "utf8" }).replace("Python ", "").split(".");

describe("the probe of a real interpreter", () => {
  let folder = "";
  let installed = "";
  /**
   * The answer of the probe. The interpreter finds only the packages in `installed`, not those of this
   * machine.
   */
  const ask = (): Environment => {
    const env = { ...process.env, PYTHONPATH: installed };
    return JSON.parse(execFileSync("python3", ["-S", "-B", join(folder, "probe.py")], { encoding: "utf8", env })) as Environment;
  };
  const compiledFor = (...names: string[]): void => {
    const msgspec = join(folder, "libs/msgspec");
    mkdirSync(msgspec, { recursive: true });
    for (const name of names) writeFileSync(join(msgspec, name), "");
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "skyline-fit-"));
    installed = join(folder, "installed");
    mkdirSync(installed);
    for (const name of ["probe.py", "interpreter_fit.py", "run_skyline.py"]) {
      cpSync(new URL(`../bundled/${name}`, import.meta.url), join(folder, name));
    }
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("reports that the bundled files are missing", () => {
    expect(ask().misfit).toMatch(/because .*libs is missing; reinstall the extension/);
  });

  it("names the supported versions and the next step for another version", () => {
    compiledFor("_core.cpython-37-x.so", "_core.cpython-38-x.so", "_core.cpython-36-x.so");
    expect(ask().misfit).toMatch(
      new RegExp(`^is Python ${major}\\.${minor}\\.\\S+, and the Skyline in this extension supports Python 3\\.6 to 3\\.8: choose one of these versions, or install Skyline .* -m pip install skyline-profiler`),
    );
  });

  it("reports a bundle for another platform", () => {
    compiledFor(`_core.cpython-${major}${minor}-another-platform.so`);
    expect(ask().misfit).toContain(`for another platform than the Skyline in this extension, which supports Python ${major}.${minor}`);
  });

  it("requires a recent NumPy if the compiled part fits", () => {
    compiledFor(`_core${suffix}`);
    expect(ask().misfit).toMatch(/^has no NumPy, which Skyline needs: run .* -m pip install numpy$/);
    writeFileSync(join(installed, "numpy.py"), "");
    mkdirSync(join(installed, "numpy-1.20.3.dist-info"));
    writeFileSync(join(installed, "numpy-1.20.3.dist-info/METADATA"), "Metadata-Version: 2.1\nName: numpy\nVersion: 1.20.3\n");
    expect(ask().misfit).toMatch(/^has NumPy 1\.20, and Skyline needs 1\.24 or newer: run .* --upgrade numpy$/);
    rmSync(join(installed, "numpy-1.20.3.dist-info"), { recursive: true });
    expect(ask().misfit).toBeNull();
  });

  it("has the same message as a refused start of the server", () => {
    compiledFor("_core.cpython-37-x.so");
    const start = (): Buffer => execFileSync("python3", ["-B", join(folder, "run_skyline.py"), "--bundled", "lsp"], { stdio: "pipe" });
    expect(start).toThrow(/supports Python 3\.7 to 3\.7: choose one of these versions/);
  });
});
