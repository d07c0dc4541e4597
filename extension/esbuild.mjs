// Builds two bundles: one for the extension host (Node) and one for the side bar's page (browser).
import { build, context } from "esbuild";

const watch = process.argv.includes("--watch");
const shared = { bundle: true, minify: !watch, sourcemap: watch, logLevel: "info", legalComments: "none" };

const targets = [
  {
    ...shared,
    entryPoints: { extension: "src/extension.ts", client: "src/server/client.ts" },
    outdir: "dist",
    platform: "node",
    format: "cjs",
    target: "node18",
    // The language client is loaded when the first training script is opened, not when the editor starts.
    external: ["vscode"],
    plugins: [
      {
        name: "separate-client",
        setup: (bundle) =>
          bundle.onResolve({ filter: /^\.\/client$/ }, ({ importer }) =>
            importer.includes("node_modules") ? undefined : { path: "./client.js", external: true },
          ),
      },
    ],
  },
  {
    ...shared,
    entryPoints: { view: "webview/main.ts" },
    outdir: "dist",
    platform: "browser",
    format: "iife",
    target: "chrome120",
    loader: { ".css": "css" },
  },
];

if (watch) {
  for (const target of targets) await (await context(target)).watch();
} else {
  await Promise.all(targets.map((target) => build(target)));
}
