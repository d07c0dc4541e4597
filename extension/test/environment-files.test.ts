import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { unfitByFiles } from "../src/python/environment-files";

let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "skyline-files-"));
  vi.stubEnv("PYTHONPATH", "");
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

/** The message about an environment with these settings and packages. */
function said(settings: string, ...packages: string[]): string | null {
  const site = join(folder, "lib", "python3.12", "site-packages");
  mkdirSync(site, { recursive: true });
  writeFileSync(join(folder, "pyvenv.cfg"), settings);
  for (const name of packages) mkdirSync(join(site, name));
  return unfitByFiles(join(folder, "bin", "python"));
}

describe("an environment's files", () => {
  it("show that PyTorch is missing", () => {
    expect(said("version = 3.12.1\n", "pip", "distutils-precedence.pth")).toMatch(/bin.python has no PyTorch$/);
  });

  it("show that Python is too old", () => {
    expect(said("home = /usr/bin\nversion_info = 3.9.18.final.0\n", "torch")).toMatch(/is Python 3\.9; Skyline needs 3\.10 or newer$/);
  });

  it.each([
    ["PyTorch is there", "version = 3.12.1\n", ["torch"]],
    ["the system's packages count", "include-system-site-packages = true\n", ["pip"]],
    ["packages may be in other folders", "version = 3.12.1\n", ["__editable__.torch.pth"]],
    ["there are no packages", "version = 3.12.1\n", []],
  ])("show no reason if %s", (_, settings, packages) => {
    expect(said(settings, ...packages)).toBeNull();
  });

  it("show no reason outside a virtual environment, or with PYTHONPATH", () => {
    expect(unfitByFiles("python3")).toBeNull();
    vi.stubEnv("PYTHONPATH", "/opt/packages");
    expect(said("version = 3.12.1\n", "pip")).toBeNull();
  });
});
