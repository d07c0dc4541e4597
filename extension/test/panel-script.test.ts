import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("of the page of skyline serve is the one that its sources give", async () => {
  const { panelScript } = (await import(join(import.meta.dirname, "../panel.mjs"))) as { readonly panelScript: () => Promise<string> };
  const kept = readFileSync(join(import.meta.dirname, "../../skyline/browser/static/panel.js"), "utf8");
  expect((await panelScript()) === kept, "run `make page`").toBe(true);
});
