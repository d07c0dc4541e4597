import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

it("the script of the page of skyline serve is up to date", async () => {
  const { pageScript } = (await import(join(import.meta.dirname, "../served-page.mjs"))) as { readonly pageScript: () => Promise<string> };
  const kept = readFileSync(join(import.meta.dirname, "../../skyline/browser/static/served-page.js"), "utf8");
  expect((await pageScript()) === kept, "run `make page`").toBe(true);
});
