import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { declaredKeys } from "../src/server/declared-keys";

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly configuration: { readonly properties: Readonly<Record<string, { readonly scope?: string; readonly markdownDescription?: string }>> };
    readonly walkthroughs: readonly { readonly steps: readonly { readonly media: { readonly markdown: string } }[] }[];
  };
  readonly capabilities: { readonly untrustedWorkspaces: { readonly restrictedConfigurations: readonly string[] } };
}

const read = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
const manifest = JSON.parse(read("package.json")) as Manifest;
const settings = manifest.contributes.configuration.properties;

describe("the manifest", () => {
  it("has at most twenty-four settings, each with a description and a scope", () => {
    expect(Object.keys(settings).length).toBeLessThanOrEqual(24);
    for (const [key, setting] of Object.entries(settings)) {
      expect(key).toMatch(/^skyline\./);
      expect(setting.markdownDescription, key).toBeTruthy();
      expect(setting.scope, key).toBeTruthy();
    }
    expect(declaredKeys(manifest)).toContain("profile.args");
  });

  it("restricts the settings that determine the program to run", () => {
    for (const key of ["skyline.interpreter", "skyline.profile.args", "skyline.profile.env", "skyline.profile.entryPoint", "skyline.profile.host", "skyline.profile.launcher", "skyline.network"]) {
      expect(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations).toContain(key);
      expect(settings).toHaveProperty([key]);
    }
  });

  it("declares exactly the registered commands", () => {
    const registered = [...read("src/commands/register.ts").matchAll(/register\("(\w+)"/g)].map((match) => `skyline.${match[1] ?? ""}`);
    expect(registered.sort()).toEqual(manifest.contributes.commands.map(({ command }) => command).sort());
  });

  it("has the pages of its walkthrough", () => {
    for (const { steps } of manifest.contributes.walkthroughs) for (const { media } of steps) expect(read(media.markdown)).toBeTruthy();
  });

  it("has lockfiles without the address of a registry", () => {
    for (const lock of ["package-lock.json", "e2e/workbench/package-lock.json"]) expect(read(lock)).not.toContain('"resolved"');
  });
});
