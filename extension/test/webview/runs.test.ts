// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { FromView, ViewState } from "../../src/view/messages";
import { NO_RUNS, type RunsState } from "../../src/view/runs-state";
import { trials, watched } from "../../webview/runs";
import { found, progress, run } from "../ran";

const asked = { budgetSeconds: 300, allow: "exact", resume: false } as const;
let sent: FromView[] = [];
const post = (message: FromView): void => void sent.push(message);
const state = (runs: Partial<RunsState>, trusted = true): ViewState => ({ trusted, script: { uri: "", name: "train.py" }, runs: { ...NO_RUNS, ...runs } }) as unknown as ViewState;
const put = (elements: HTMLElement[]): string => {
  document.body.replaceChildren(...elements);
  return document.body.textContent;
};
const press = (key: string): void => document.querySelector<HTMLElement>(`[data-key="${key}"]`)?.click();

beforeEach(() => {
  sent = [];
  vi.stubGlobal("CSS", { escape: (text: string) => text });
});

describe("a watched run", () => {
  it("that does not exist shows the command that makes one", () => {
    expect(put(watched(state({}), post))).toContain("skyline watch train.py");
  });

  it("shows its state, times, shares and alerts, the latest first", () => {
    const words = put(watched(state({ watched: run() }), post));
    expect(words).toContain("running · iteration 1,500 · 13.0 ms each · loss 0.6667 · 2.0 GB");
    expect(words).toContain("waits for data 20 % · forward 30 % · backward and step 50 %");
    expect(words.indexOf("loader_stalls")).toBeLessThan(words.indexOf("checkpoint_stalls"));
    expect(words).toContain("ended at 900");
    expect(document.querySelector("polyline")?.getAttribute("points")?.split(" ")).toHaveLength(3);
    press("loader_stalls 1000");
    press("checkpoint_stalls 400");
    expect(sent).toEqual([{ type: "open", place: { kind: "line", file: "/home/ada/train.py", line: 9, source: "" } }]);
  });

  it.each([
    [{ state: "silent" as const }, "no update for 30 s"],
    [{ state: "ended" as const, exit_code: 1 }, "ended with exit code 1"],
    [{ points: [], alerts: [] }, "No rule has found a problem"],
  ])("shows the state %j", (news, words) => {
    expect(put(watched(state({ watched: run(news) }), post))).toContain(words);
  });

  it("shows the progress that the training logs", () => {
    const logged = { benchmark: "", batch_size: null, epoch_samples: null, epoch: 3.2, samples: null, metric: "eval_accuracy", quality: 0.741, target: 0.759, status: "", seconds: null, began_s: null };
    expect(put(watched(state({ watched: run({ logged }) }), post))).toContain("epoch 3.2, eval_accuracy 0.741 (target 0.759)");
  });
});

describe("a search by trials", () => {
  it("is requested with its limits, and can continue from earlier trials", () => {
    put(trials(state({}), asked, post));
    expect(document.querySelector('[data-key="search on"]')).toBeNull();
    const [minutes] = document.querySelectorAll("select");
    if (!minutes) throw new Error("there are no minutes");
    minutes.value = "15";
    press("search");
    put(trials(state({ trials: progress({ running: false }) }), asked, post));
    press("search on");
    expect(sent).toEqual([
      { type: "search", asked: { budgetSeconds: 900, allow: "exact", resume: false } },
      { type: "search", asked: { budgetSeconds: 300, allow: "exact", resume: true } },
    ]);
  });

  it("shows the budget and the best trial during the search, and can be cancelled", () => {
    const words = put(trials(state({ searching: true, trials: progress() }), asked, post));
    expect(words).toContain("4:00 of 5 min left · trial 3: measure");
    expect(words).toContain("Best so far: +21 %");
    expect(document.querySelector("progress")?.value).toBe(60);
    press("search");
    expect(sent).toEqual([{ type: "command", command: "skyline.cancelRun" }]);
  });

  it("offers to write the best combination", () => {
    const words = put(trials(state({ trials: progress(), found: found() }), asked, post));
    expect(words).toContain("measured, with batch_size=64, num_workers=4.");
    expect([...document.querySelectorAll("tbody tr")].map((row) => row.querySelector("th")?.textContent)).toEqual(["batch_size=64, num_workers=4 ◀ best", "num_workers=2", "compile"]);
    press("apply trial");
    expect(sent).toEqual([{ type: "applyTogether", question: { batchSize: 64, whatifs: ["num_workers=4"] } }]);
  });

  it.each([
    ["nothing", "No change here gains more than 2 %."],
    ["unverified", "not verified"],
    ["unmeasured", "Nothing was measured."],
  ])("with the outcome %s offers no change", (outcome, words) => {
    expect(put(trials(state({ found: found({ outcome }) }), asked, post))).toContain(words);
    expect(document.querySelector('[data-key="apply trial"]')).toBeNull();
  });

  it("requires a trusted workspace", () => {
    expect(put(trials(state({}, false), asked, post))).toContain("Trust this workspace");
    expect(put(trials(state({ reason: "The script is being profiled" }), asked, post))).toContain("The script is being profiled");
  });
});
