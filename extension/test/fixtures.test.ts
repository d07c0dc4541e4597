import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { KINDS, recorded } from "./recorded";

/** The interfaces of the protocol: each field with its type as it is written. */
function interfaces(): Map<string, Map<string, string>> {
  const text = readFileSync(join(import.meta.dirname, "../src/protocol.generated.ts"), "utf8");
  const found = new Map<string, Map<string, string>>();
  for (const [, name = "", body = ""] of text.matchAll(/export interface (\w+) \{\n([\s\S]*?)\n\}/g)) {
    found.set(name, new Map([...body.matchAll(/^ {2}readonly (\w+)(\??): (.+);$/gm)].map(([, field = "", , type = ""]) => [field, type])));
  }
  for (const [, name = "", of = ""] of text.matchAll(/export type (\w+) = (\w+);/g)) {
    const same = found.get(of);
    if (same) found.set(name, same);
  }
  return found;
}

const TYPES = interfaces();

/** Where a value differs from its type: `profile.lines[0]: lacks source`. */
function differences(value: unknown, type: string, where: string): string[] {
  if (Array.isArray(value)) {
    const [, of = ""] = /readonly (\w+)\[\]/.exec(type) ?? [];
    return value.flatMap((one, index) => differences(one, of, `${where}[${index}]`));
  }
  const fields = type.split(" | ").map((one) => TYPES.get(one)).find(Boolean);
  if (value === null || typeof value !== "object" || !fields) return [];
  const keys = Object.keys(value);
  return [
    ...[...fields.keys()].filter((key) => !keys.includes(key)).map((key) => `${where}: lacks ${key}`),
    ...keys.filter((key) => !fields.has(key)).map((key) => `${where}: has ${key}`),
    ...Object.entries(value).flatMap(([key, one]) => differences(one, fields.get(key) ?? "", `${where}.${key}`)),
  ];
}

describe("the recorded answers", () => {
  it.each(KINDS)("about the %s script have the fields of the protocol, and no others", (kind) => {
    const { profile, whatifs, code, answers } = recorded(kind);
    expect(differences(profile, "ProfileReport", "profile")).toEqual([]);
    expect(differences(whatifs, "WhatIfReport", "whatifs")).toEqual([]);
    expect(differences(code, "CodeChanges", "code")).toEqual([]);
    for (const { estimate } of answers) expect(differences(estimate, "EstimateReport", "answer")).toEqual([]);
  });

  it("would be told apart", () => {
    const { whatifs } = recorded("argparse");
    const lacking = Object.fromEntries(Object.entries(whatifs.baseline).filter(([key]) => key !== "replay_error"));
    expect(differences({ ...whatifs, baseline: { ...lacking, more: 1 } }, "WhatIfReport", "whatifs")).toEqual(["whatifs.baseline: lacks replay_error", "whatifs.baseline: has more"]);
    const [line] = recorded("argparse").profile.lines;
    expect(differences([{ ...line, parts: [{}] }], "readonly LineReport[]", "lines")).not.toEqual([]);
  });
});
