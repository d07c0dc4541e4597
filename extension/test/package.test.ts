import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { listFiles, PackageManager } from "@vscode/vsce";
import { describe, expect, it } from "vitest";

interface Manifest {
  readonly repository: { readonly url: string; readonly directory: string };
  readonly scripts: { readonly package: string };
}

const EXTENSION = fileURLToPath(new URL("..", import.meta.url));
const REPOSITORY = dirname(dirname(join(EXTENSION, "x")));
const manifest = JSON.parse(readFileSync(join(EXTENSION, "package.json"), "utf8")) as Manifest;
const { url, directory } = manifest.repository;
const RAW = `${url.replace("https://github.com/", "https://raw.githubusercontent.com/")}/main/`;
const PAGE = new RegExp(`^${url}/(?:blob|tree)/main/`);

/** The reason why a link of the store page is broken. Null for a valid link. */
function broken(target: string, isPicture: boolean): string | null {
  if (target.startsWith(RAW)) return existsSync(join(REPOSITORY, target.slice(RAW.length))) ? null : "no such file in the repository";
  if (PAGE.test(target)) {
    if (isPicture) return "a page about the picture, not the picture";
    return existsSync(join(REPOSITORY, target.replace(PAGE, ""))) ? null : "no such page in the repository";
  }
  if (/^https:\/\//.test(target)) return null;
  // The store resolves relative links in the extension's folder and does not show files above it.
  if (/^[a-z]+:|^\/|(^|\/)\.\.(\/|$)/.test(target)) return "neither https nor below the extension's folder";
  return existsSync(join(EXTENSION, target)) ? null : "no such file in the extension's folder";
}

const links = (page: string): { target: string; picture: boolean }[] =>
  [...readFileSync(join(EXTENSION, page), "utf8").matchAll(/(!?)\[[^\]]*\]\(([^)\s]+)\)/g)].map((match) => ({
    target: match[2] ?? "",
    picture: match[1] === "!",
  }));

describe("the pages that the store shows", () => {
  it("have valid links", () => {
    for (const page of ["README.md", "CHANGELOG.md"]) {
      for (const { target, picture } of links(page)) expect(broken(target, picture), `${page}: ${target}`).toBeNull();
    }
    expect(links("README.md").filter(({ picture }) => picture)).not.toHaveLength(0);
  });

  it("fail the check with a picture that the store cannot find", () => {
    expect(broken("../docs/images/vscode-dark.png", true)).not.toBeNull();
    expect(broken(`${RAW}docs/images/nowhere.png`, true)).not.toBeNull();
    expect(broken(`${url}/blob/main/docs/images/vscode-dark.png`, true)).not.toBeNull();
  });

  it("are packaged with the base addresses of relative links", () => {
    expect(manifest.scripts.package).toContain(`--baseContentUrl ${url}/blob/main/${directory}`);
    expect(manifest.scripts.package).toContain(`--baseImagesUrl ${RAW}${directory}`);
  });
});

describe("the package", () => {
  const packaged = async (...files: string[]): Promise<string[]> => {
    const cwd = mkdtempSync(join(tmpdir(), "skyline-package-"));
    try {
      for (const name of ["package.json", ".vscodeignore"]) cpSync(join(EXTENSION, name), join(cwd, name));
      for (const file of files) {
        mkdirSync(dirname(join(cwd, file)), { recursive: true });
        writeFileSync(join(cwd, file), "");
      }
      return (await listFiles({ cwd, packageManager: PackageManager.None })).filter((file) => file !== "package.json").sort();
    } finally {
      rmSync(cwd, { recursive: true });
    }
  };

  it("contains the extension, the server and the pages", async () => {
    const wanted = [
      "CHANGELOG.md", "LICENSE", "README.md",
      "bundled/interpreter_fit.py", "bundled/libs/msgspec/_core.cpython-311-x86_64-linux-gnu.so",
      "bundled/libs/skyline/report/html/template/page.html", "bundled/libs/skyline_profiler-0.1.0.dist-info/METADATA",
      "bundled/libs/typing_extensions.py", "bundled/probe.py", "bundled/run_skyline.py",
      "dist/extension.js", "dist/view.css", "media/icon.png", "media/skyline.svg", "media/walkthrough/open.md",
    ];
    expect(await packaged(...wanted)).toEqual(wanted.sort());
  });

  it("contains no other files", async () => {
    const unwanted = [
      "bundle.py", "bundled/__pycache__/probe.cpython-311.pyc", "bundled/libs/skyline/__pycache__/units.cpython-311.pyc",
      "bundled/libs/skyline/units.pyc", "bundled/cp311/numpy/__init__.py", "dist/extension.js.map", "media/icon.svg",
      "src/extension.ts", "test/package.test.ts", "e2e/run.mjs", "node_modules/uplot/package.json", "skyline.vsix", "test.sh",
    ];
    expect(await packaged(...unwanted)).toEqual([]);
  });
});
