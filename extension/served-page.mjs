// Builds the script of the page of `skyline serve`. It is kept in the repository, because Python packages are built without Node.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const BUILT = here("../skyline/browser/static/served-page.js");

/** The script. It begins with its sources and their checksum, which a test without Node compares. */
export async function pageScript() {
  const { outputFiles, metafile } = await build({
    absWorkingDir: here("."),
    entryPoints: ["webview/served-page.ts"],
    outdir: ".",
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "iife",
    target: "es2022",
    // The styles are put into a shadow tree, where those of the report do not reach.
    loader: { ".css": "text" },
    legalComments: "none",
  });
  const sources = Object.keys(metafile.inputs).filter((name) => !name.startsWith("node_modules/")).sort();
  const sum = createHash("sha256");
  for (const name of sources) sum.update(readFileSync(here(name)));
  const { version } = JSON.parse(readFileSync(here("node_modules/uplot/package.json"), "utf8"));
  const licence = readFileSync(here("node_modules/uplot/LICENSE"), "utf8").trim();
  const banner = ["Built by `make page`.", `Sources: ${sources.join(" ")}`, `SHA-256: ${sum.digest("hex")}`, "", `With uPlot ${version}:`, licence];
  return `/*\n${banner.join("\n")}\n*/\n${outputFiles[0].text}`;
}

if (process.argv[1] === here("served-page.mjs")) writeFileSync(BUILT, await pageScript());
