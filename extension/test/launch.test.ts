import { describe, expect, it } from "vitest";
import { configurationsOf } from "../src/launch/configurations";
import { commandOf, typedRun } from "../src/launch/launcher";
import { RememberedRuns } from "../src/launch/remembered";
import { holdsSecret } from "../src/launch/secrets";
import { asLine, UnfinishedLine, words } from "../src/launch/words";

describe("a command line", () => {
  it.each([
    ["", []],
    ["  --lr 1e-3  ", ["--lr", "1e-3"]],
    [`--name 'a b' "c d"`, ["--name", "a b", "c d"]],
    [`--empty '' ""`, ["--empty", "", ""]],
    [`a\\ b "x\\"y" 'x\\y' "x\\y"`, ["a b", 'x"y', "x\\y", "x\\y"]],
    [`--data="my data"/train`, ["--data=my data/train"]],
  ])("%j", (line, args) => expect(words(line, "linux")).toEqual(args));

  it("keeps the backslashes of Windows paths", () => {
    expect(words(`--data C:\\data\\train "D:\\my data"`, "win32")).toEqual(["--data", "C:\\data\\train", "D:\\my data"]);
  });

  it.each([`'open`, `"open`, "end\\"])("%j is not finished", (line) => expect(() => words(line, "linux")).toThrow(UnfinishedLine));

  it.each(["linux", "win32"] as const)("made from arguments splits into the same arguments on %s", (platform) => {
    const args = ["--name", "a b", "", "it's", 'say "no"', "$HOME", "C:\\x", "--x=1,2", "ä"];
    expect(words(asLine(args, platform), platform)).toEqual(args);
  });
});

describe("launch.json", () => {
  const around = { script: "/home/ada/project/sub/train.py", folder: "/home/ada/project", home: "/home/ada", environment: { DATA: "/data" } };
  const found = (...given: unknown[]) => configurationsOf(given, around);
  const launch = (news: object) => ({ name: "one", type: "debugpy", request: "launch", ...news });

  it.each(["${file}", "${workspaceFolder}/sub/train.py", "${workspaceFolder}/${relativeFile}", "sub/train.py", "${fileDirname}/${fileBasename}", "/home/ada/project/sub/train.py"])("finds the script by %s", (program) => {
    expect(found(launch({ program, args: ["--lr", "1"] }))).toEqual([{ name: "one", options: { args: ["--lr", "1"] } }]);
  });

  it("splits arguments given as one line", () => {
    expect(found(launch({ type: "python", program: "${file}", args: "--name 'a b'" }))[0]?.options.args).toEqual(["--name", "a b"]);
  });

  it("passes the variables, the folder and the environment", () => {
    const given = launch({ program: "${file}", args: ["${env:DATA}", "${workspaceFolder}/x", 3], cwd: "${fileDirname}", env: { SEED: "1", KEEP: null, AT: "${userHome}" } });
    expect(found(given)[0]?.options).toEqual({ args: ["/data", "/home/ada/project/x", "3"], cwd: "/home/ada/project/sub", env: { SEED: "1", AT: "/home/ada" } });
  });

  it("finds modules from the folder that they run in", () => {
    expect(found(launch({ module: "sub.train" }))[0]?.options).toEqual({ args: [], module: "sub.train" });
    expect(found(launch({ module: "train", cwd: "sub" }))[0]?.options).toEqual({ args: [], module: "train", cwd: "/home/ada/project/sub" });
    expect(found(launch({ module: "train" }))).toEqual([]);
  });

  it.each([
    [{ module: "torch.distributed.run", args: ["--nproc-per-node", "2", "${file}", "--lr", "1"] }, { launcher: ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2"], args: ["--lr", "1"] }],
    [{ program: "${workspaceFolder}/.venv/bin/torchrun", args: "--standalone sub/train.py" }, { launcher: ["/home/ada/project/.venv/bin/torchrun", "--standalone"], args: [] }],
    [{ module: "torch.distributed.run", args: ["--nproc-per-node=2", "-m", "sub.train", "x"] }, { launcher: ["python", "-m", "torch.distributed.run", "--nproc-per-node=2"], module: "sub.train", args: ["x"] }],
    [{ program: "accelerate", args: ["launch", "train.py"], cwd: "sub" }, { launcher: ["accelerate", "launch"], args: [], cwd: "/home/ada/project/sub" }],
  ])("reads a launcher: %j", (given, options) => {
    expect(found(launch(given))).toEqual([{ name: "one", options }]);
  });

  it("leaves out launchers of other scripts", () => {
    expect(found(launch({ module: "torch.distributed.run", args: ["--nproc-per-node", "2", "other.py"] }), launch({ program: "deepspeed", args: [] }))).toEqual([]);
  });

  it("leaves out other scripts, other debuggers, and variables that only the debugger can fill in", () => {
    const others = [{ program: "other.py" }, { type: "node", program: "${file}" }, { request: "attach", program: "${file}" }, { program: "${file}", args: "${command:pickArgs}" }, { program: "${file}", args: ["${input:data}"] }, { program: "${file}", args: "'open" }, {}];
    expect(found(...others.map(launch), null, 3)).toEqual([]);
    expect(configurationsOf(undefined, around)).toEqual([]);
  });
});

describe("a typed command", () => {
  const script = "/home/ada/project/sub/train.py";
  const typed = (line: string) => typedRun(words(line), script, "/home/ada/project");

  it("is read as a launcher, the script and its arguments", () => {
    expect(typed("torchrun --nproc-per-node 2 sub/train.py --lr 1")).toEqual({ module: null, launcher: ["torchrun", "--nproc-per-node", "2"], args: ["--lr", "1"] });
    expect(typed("torchrun train.py")).toEqual({ module: null, launcher: ["torchrun"], args: [] });
    expect(typed("uv run python -m torch.distributed.run -m sub.train")).toEqual({ launcher: ["uv", "run", "python", "-m", "torch.distributed.run"], module: "sub.train", args: [] });
  });

  it.each([["--config sub/train.py", ["--config", "sub/train.py"]], ["torchrun other.py", ["torchrun", "other.py"]], ["", []]])("has only arguments: %j", (line, args) => expect(typed(line)).toEqual({ args }));

  it("is shown as the typed command", () => {
    expect(commandOf(typed("torchrun --nproc-per-node 2 sub/train.py --lr 1"), script)).toEqual(["torchrun", "--nproc-per-node", "2", "train.py", "--lr", "1"]);
    expect(commandOf(typed("torchrun -m sub.train"), script)).toEqual(["torchrun", "-m", "sub.train"]);
    for (const options of [null, { args: ["--lr", "1"] }, { launcher: [], args: [] }]) expect(commandOf(options, script)).toEqual([]);
  });
});

describe("the remembered runs", () => {
  it("are stored by script and returned as a whole", async () => {
    const kept = new Map<string, unknown>([["another thing", 1]]);
    const update = async (key: string, value: unknown): Promise<void> => {
      if (value === undefined) kept.delete(key);
      else kept.set(key, JSON.parse(JSON.stringify(value)));
      await Promise.resolve();
    };
    const runs = new RememberedRuns({ keys: () => [...kept.keys()], get: (key) => kept.get(key), update });
    await runs.keep("file:///a.py", { args: ["--x"] });
    await runs.keep("file:///b.py", { args: [], env: { SEED: "1" } });
    await runs.keep("file:///c.py", { args: ["gone"] });
    await runs.keep("file:///c.py", null);
    expect(runs.of("file:///a.py")).toEqual({ args: ["--x"] });
    expect(runs.of("file:///c.py")).toBeNull();
    expect(runs.all).toEqual({ "file:///a.py": { args: ["--x"] }, "file:///b.py": { args: [], env: { SEED: "1" } } });
  });

  it("are not stored if they contain a secret", async () => {
    const kept = new Map<string, unknown>();
    const update = async (key: string, value: unknown) => {
      if (value === undefined) kept.delete(key);
      else kept.set(key, value);
      await Promise.resolve();
    };
    const runs = new RememberedRuns({ keys: () => [...kept.keys()], get: (key) => kept.get(key), update });
    await runs.keep("file:///a.py", { args: ["--x"] });
    await runs.keep("file:///a.py", { args: ["--api-key", "abc"] });
    expect([...kept.keys()]).toEqual([]);
    expect(runs.of("file:///a.py")).toEqual({ args: ["--api-key", "abc"] });
    expect(runs.all).toEqual({ "file:///a.py": { args: ["--api-key", "abc"] } });
    await runs.keep("file:///a.py", null);
    expect(runs.all).toEqual({});
  });

  it.each([
    [["-p", "hunter2"]],
    [["--login=me"]],
    [["--cookie", "a"]],
    [["--openai", "abc"]],
    [["--wandb-key=abc"]],
    [["--x", "hf_abcdefghijklmnopqrstuvwx"]],
    [["--x", "0123456789abcdef0123456789abcdef01234567"]],
    [["https://me:pw@host/"]],
  ])("with %j contain a secret", (args) => expect(holdsSecret({ args })).toBe(true));

  it.each([
    [["-p", "8080"]],
    [["-p", "data/a.csv"]],
    [["--sort_key", "length", "--max-tokens", "3", "--pad-token", "</s>"]],
    [["--commit", "0123456789abcdef0123456789abcdef01234567"]],
  ])("with %j contain no secret", (args) => expect(holdsSecret({ args })).toBe(false));

  it("are checked for secrets in variables, too", () => {
    expect(holdsSecret({ args: [], env: { WANDB_API_KEY: "x" } })).toBe(true);
    expect(holdsSecret({ args: [], env: { SEED: "1", CUDA_VISIBLE_DEVICES: "0" } })).toBe(false);
  });
});
