// An isolated VS Code: code-server with its own settings, extensions and workspaces, and a browser.
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { chromium } from "playwright-core";

const HERE = import.meta.dirname;
const ENTRY = path.join(HERE, "workbench/node_modules/code-server/out/node/entry.js");
const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const START_TIMEOUT_MS = 240_000;
/** Time limit of browser actions that are expected to succeed. Conditions have their own limits. */
const ACTION_TIMEOUT_MS = 120_000;
/** Maximum time that a single evaluation of a condition adds to the waiting time. */
const MOST_COUNTED_MS = 2500;
/**
 * Data that a page stores in the browser. The HTTP cache with the workbench's files stays: all windows share
 * it.
 */
const LEFT_BEHIND = "cookies,local_storage,indexeddb,file_systems,service_workers,cache_storage";

const USER_SETTINGS = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "extensions.ignoreRecommendations": true,
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "chat.disableAIFeatures": true,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.enableExperiments": false,
  "editor.minimap.enabled": false,
  "editor.inlayHints.enabled": "on",
  "window.menuBarVisibility": "hidden",
  "git.enabled": false,
  "files.autoSave": "off",
  "security.workspace.trust.banner": "never",
  "security.workspace.trust.startupPrompt": "never",
  "window.confirmBeforeClose": "never",
  // Two other batch sizes are measured with this budget, and no check needs more.
  "skyline.profile.budgetS": 8,
};

/** All files of a run are in one folder, which `stop` removes. */
export class Workbench {
  #server = null;
  /**
   * One browser profile for all windows. A new profile would load and compile the workbench's 12 MB of code
   * again.
   */
  #browser = null;
  /** A page that stays open, because the browser ends with its last page. */
  #keeper = null;
  #log = "";
  #settings = {};
  #pages = new Set();

  constructor(root, port) {
    this.root = root;
    this.port = port;
  }

  static async start({ vsix, python, trust = false, settings = {}, machine = {} }) {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), "skyline-e2e-"));
    const bench = new Workbench(root, await freePort());
    const write = (name, value) => {
      fs.mkdirSync(path.dirname(bench.path(name)), { recursive: true });
      fs.writeFileSync(bench.path(name), JSON.stringify(value));
    };
    write("data/User/settings.json", { ...USER_SETTINGS, ...settings });
    // Not in the user's settings: a workbench in a browser may lose settings of this scope there.
    write("data/Machine/settings.json", { ...(python ? { "skyline.interpreter": python } : {}), ...machine });
    bench.#settings = { ...USER_SETTINGS, ...settings };
    // The PATH finds the same Python, because an untrusted workspace uses the one on the PATH.
    const searched = [bench.path("bin"), ...(python ? [path.dirname(python)] : []), process.env.PATH].join(path.delimiter);
    const env = { ...process.env, PATH: searched, HOME: bench.path("home"), XDG_CONFIG_HOME: bench.path("home/xdg"), EXTENSIONS_GALLERY: '{"serviceUrl":""}', OMP_NUM_THREADS: "1" };
    delete env.VSCODE_IPC_HOOK_CLI;
    fs.mkdirSync(env.XDG_CONFIG_HOME, { recursive: true });
    // The workbench uses the PATH of a login shell, which sets it again.
    fs.writeFileSync(bench.path("home/.profile"), `export PATH="${bench.path("bin")}:$PATH"\n`);
    const base = [ENTRY, "--user-data-dir", bench.path("data"), "--extensions-dir", bench.path("extensions"), "--config", bench.path("config.yaml")];
    if (vsix) execFileSync(process.execPath, [...base, "--install-extension", vsix], { env, stdio: "pipe" });
    const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${bench.port}`, "--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"];
    if (!trust) flags.push("--disable-workspace-trust");
    bench.#server = spawn(process.execPath, [...base, ...flags], { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [bench.#server.stdout, bench.#server.stderr]) stream.on("data", (data) => (bench.#log += data));
    await until(() => fetch(`http://127.0.0.1:${bench.port}/healthz`).then((answer) => answer.ok), "the workbench did not start", START_TIMEOUT_MS);
    bench.#browser = await chromium.launchPersistentContext(bench.path("browser"), {
      executablePath: browserPath(),
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
      permissions: ["clipboard-read", "clipboard-write"],
      // Without a GPU, an animated spinner takes half a core during a measurement.
      reducedMotion: "reduce",
    });
    bench.#browser.setDefaultTimeout(ACTION_TIMEOUT_MS);
    bench.#keeper = bench.#browser.pages()[0] ?? (await bench.#browser.newPage());
    return bench;
  }

  path(name) {
    return path.join(this.root, name);
  }

  /** Create a workspace folder with these files. Returns its path. */
  workspace(name, files) {
    const folder = this.path(`workspaces/${name}`);
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
      fs.writeFileSync(path.join(folder, file), text);
    }
    return folder;
  }

  /** Create a program on the PATH of the workbench, or in another folder below its root. */
  program(name, text, folder = "bin") {
    fs.mkdirSync(this.path(folder), { recursive: true });
    fs.writeFileSync(this.path(`${folder}/${name}`), text, { mode: 0o755 });
  }

  /** Open a window on a folder, with a file if one is given. */
  async open(folder, file, { width = 1280, height = 860 } = {}) {
    if (this.#pages.size === 0) await this.#forgetPages();
    const page = await this.#browser.newPage();
    await page.setViewportSize({ width, height });
    this.#pages.add(page);
    page.on("close", () => this.#pages.delete(page));
    page.outside = [];
    page.violations = [];
    page.on("request", (request) => {
      const { hostname } = new URL(request.url());
      if (hostname && hostname !== "127.0.0.1" && !hostname.endsWith("vscode-cdn.net")) page.outside.push(request.url());
    });
    page.on("console", (message) => {
      if (/Content Security Policy/i.test(message.text()) && /skyline/i.test(message.text())) page.violations.push(message.text());
    });
    const payload = file ? `&payload=${encodeURIComponent(JSON.stringify([["openFile", `vscode-remote://127.0.0.1:${this.port}${folder}/${file}`]]))}` : "";
    await page.goto(`http://127.0.0.1:${this.port}/?folder=${encodeURIComponent(folder)}${payload}`);
    await seen(page.locator(file ? ".monaco-editor .view-line" : ".monaco-workbench .part.editor"), "the workbench did not open", START_TIMEOUT_MS);
    return page;
  }

  /** Delete the backups of unsaved files. Otherwise a new window on the same folder would restore them. */
  forgetUnsaved() {
    for (const entry of fs.readdirSync(this.path("data"), { withFileTypes: true, recursive: true })) {
      if (entry.isDirectory() && entry.name === "Backups") fs.rmSync(path.join(entry.parentPath, entry.name), { recursive: true, force: true });
    }
  }

  /** The extension's log of all windows, the latest window last. */
  extensionLog() {
    const found = [];
    const walk = (folder) => {
      for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const full = path.join(folder, entry.name);
        if (entry.isDirectory()) walk(full);
        else if (entry.name === "Skyline.log") found.push(full);
      }
    };
    if (fs.existsSync(this.path("data/logs"))) walk(this.path("data/logs"));
    // Sort by time: by name the tenth window would come before the second.
    const begun = new Map(found.map((file) => [file, fs.statSync(file).birthtimeMs]));
    found.sort((one, other) => begun.get(one) - begun.get(other));
    return found.map((file) => fs.readFileSync(file, "utf8")).join("\n");
  }

  /** The open windows. */
  pages() {
    return [...this.#pages];
  }

  /** Pages opened by a window. */
  popUps() {
    return this.#browser.pages().filter((page) => page !== this.#keeper && !this.#pages.has(page));
  }

  /** Reset the browser's data: layout, open editors and other state of earlier windows. */
  async #forgetPages() {
    const session = await this.#browser.newCDPSession(this.#keeper);
    await session.send("Storage.clearDataForOrigin", { origin: `http://127.0.0.1:${this.port}`, storageTypes: LEFT_BEHIND });
    await session.detach();
  }

  /** Change the user's settings while the workbench runs. */
  setUser(settings) {
    this.#settings = { ...this.#settings, ...settings };
    fs.writeFileSync(this.path("data/User/settings.json"), JSON.stringify(this.#settings));
  }

  /** The content of a workspace's file on disk. */
  read(file) {
    return fs.readFileSync(this.path(`workspaces/${file}`), "utf8");
  }

  /** Write a workspace's file from outside the editor. */
  write(file, text) {
    fs.writeFileSync(this.path(`workspaces/${file}`), text);
  }

  /** The saved profiles of a workspace's scripts. */
  profiles(workspace) {
    const folder = this.path(`workspaces/${workspace}/.skyline`);
    return fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.endsWith(".profile.json.gz")) : [];
  }

  hasProfiles(workspace) {
    return this.profiles(workspace).length > 0;
  }

  /** The server process, which is the ancestor of all others except the browser. */
  get processId() {
    return this.#server.pid;
  }

  get serverLog() {
    return this.#log;
  }

  async stop() {
    await this.#browser?.close();
    if (this.#server?.pid && this.#server.exitCode === null) {
      const ended = new Promise((resolve) => this.#server.once("exit", resolve));
      process.kill(-this.#server.pid, "SIGTERM");
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 8000))]);
      try {
        process.kill(-this.#server.pid, "SIGKILL");
      } catch {
        // The process group has already ended.
      }
    }
    fs.rmSync(this.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/**
 * Wait until the condition holds, and return its value. An exception counts as false. Time in which this
 * process could not run does not count towards the limit, so that a stalled machine causes no failure.
 */
export async function until(holds, what, timeoutMs = 60_000) {
  let waited = 0;
  for (let last = Date.now(); ; ) {
    let found = null;
    let reason = `waited ${timeoutMs / 1000} s`;
    try {
      found = await holds();
    } catch (error) {
      reason = error.message;
    }
    if (found) return found;
    if (waited >= timeoutMs) throw new Error(`${what} (${reason})`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    waited += Math.min(Date.now() - last, MOST_COUNTED_MS);
    last = Date.now();
  }
}

/** Wait until an element is visible. */
export function seen(locator, what = `${String(locator)} is not visible`, timeoutMs = 120_000) {
  return until(() => locator.first().isVisible(), what, timeoutMs);
}

/** Wait until an element is on the page. It may be hidden by another one. */
export function there(locator, what = `${String(locator)} is not on the page`, timeoutMs = 120_000) {
  return until(async () => (await locator.count()) > 0, what, timeoutMs);
}

export function browserPath() {
  const found = [process.env.SKYLINE_CHROMIUM, ...BROWSERS].find((one) => one && fs.existsSync(one));
  if (!found) throw new Error("there is no Chromium: install it (Debian: apt-get install chromium), or set SKYLINE_CHROMIUM to its path");
  return found;
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
