import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { REPLACED, reportPage } from "../src/view/report-page";

const template = (name: string): string => readFileSync(new URL(`../../skyline/report/html/template/${name}`, import.meta.url), "utf8");
const report = template("page.html").replace('{% include "style.css" %}', template("style.css"));

describe("the report as a page of the editor", () => {
  it("has each replaced part once", () => {
    for (const part of REPLACED) expect(report.split(part), part).toHaveLength(2);
  });

  it("has a policy that allows only its styles", () => {
    const page = reportPage(report, true, "abc");
    const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/.exec(page)?.[1];
    expect(policy).toBe("default-src 'none'; style-src-elem 'nonce-abc'; style-src-attr 'unsafe-inline'");
    expect(page.indexOf("Content-Security-Policy")).toBeLessThan(page.indexOf("<style"));
    expect(page.match(/<style[^>]*>/g)).toEqual(['<style nonce="abc">']);
  });

  it("contains only elements that the policy allows", () => {
    const everything = ["page.html", "blocks.html", "chart.svg", "memory.svg", "style.css"].map(template).join("\n");
    expect(everything.match(/<script(?![^>]*type="application\/json")[^>]*>|\son\w+=|<(?:img|link|iframe)\b|@import|url\((?!#)|\b(?:src|srcset)=/g)).toBeNull();
  });

  it("follows the editor's light or dark theme instead of the system's", () => {
    const [light, dark] = [reportPage(report, false, "abc"), reportPage(report, true, "abc")];
    expect(light).toContain("@media not all {");
    expect(light).toContain("color-scheme: light;");
    expect(dark).toContain("@media all {");
    expect(dark).toContain("color-scheme: dark;");
    expect(light + dark).not.toContain("prefers-color-scheme");
  });
});
