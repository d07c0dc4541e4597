// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { FromView, ViewState } from "../../src/view/messages";
import { NO_PLAN } from "../../src/view/plan-state";
import { NO_RUNS } from "../../src/view/runs-state";
import { answerTo, KINDS, recorded, type Recorded } from "../recorded";

vi.mock("uplot", () => ({ default: class { over = document.createElement("div"); cursor = {}; destroy() {} setSize() {} redraw() {} } }));
vi.mock("uplot/dist/uPlot.min.css", () => ({}));
vi.mock("../../webview/style.css", () => ({}));

let now: Recorded = recorded("argparse");
const state = (news: Partial<ViewState> = {}): ViewState => ({
  stage: "ready",
  script: { uri: "file:///home/ada/project/train.py", name: "train.py" },
  module: null,
  arguments: "",
  command: "",
  isTrace: false,
  trouble: null,
  progress: "",
  stale: false,
  trusted: true,
  // The tests do not depend on other programs that ran during the recording.
  profile: { ...now.profile, machine_busy: false, set_aside: false },
  whatifs: now.whatifs,
  applied: { batchSize: now.code.batchSize, whatifs: now.code.whatifs },
  removed: now.code.removed,
  changes: now.code.changes,
  canVerify: now.code.verify !== null,
  refused: [],
  notice: "",
  verifying: false,
  verified: null,
  comparing: false,
  devices: null,
  best: null,
  plan: NO_PLAN,
  runs: NO_RUNS,
  ...news,
});

let sent: FromView[] = [];
let frame: (() => void) | null = null;

const show = (news: Partial<ViewState> = {}): void => void window.dispatchEvent(new MessageEvent("message", { data: { type: "state", state: state(news) } }));
const all = (selector: string): HTMLElement[] => [...document.querySelectorAll<HTMLElement>(selector)];
const one = (selector: string): HTMLInputElement => {
  const found = document.querySelector<HTMLInputElement>(selector);
  if (!found) throw new Error(`there is no ${selector}`);
  return found;
};
const pointer = (type: string, clientX: number, bar = "throughput"): void => {
  const event = new MouseEvent(type, { clientX, button: 0, bubbles: true });
  one(`[data-bar="${bar}"] .track`).dispatchEvent(Object.assign(event, { pointerId: 1 }));
};
const nextFrame = (): void => {
  const run = frame;
  frame = null;
  run?.();
};
/** Answer all questions with the recorded answers of the server. */
const answer = (): void => {
  for (const message of sent.splice(0)) {
    if (message.type !== "simulate") continue;
    const { batchSize, whatifs } = message.question;
    const estimate = answerTo(now, batchSize ?? now.profile.batch_size.value, whatifs, message.curve);
    window.dispatchEvent(new MessageEvent("message", { data: { type: "estimate", id: message.id, estimate, reason: "" } }));
  }
};
const percent = (style: string): number => Number(style.replace("%", "")) / 100;
const change = (label: string, batchSize: number | null, whatifs: string[], measured = false): ViewState["changes"][number] => ({ label, batchSize, whatifs, removes: [], measured });

const scrolled = vi.fn();

beforeEach(async () => {
  sent = [];
  scrolled.mockClear();
  Element.prototype.scrollIntoView = scrolled;
  now = recorded("argparse");
  document.body.innerHTML = '<main id="view"></main>';
  const kept: { state: unknown } = { state: undefined };
  vi.stubGlobal("acquireVsCodeApi", () => ({ postMessage: (message: FromView) => sent.push(message), getState: () => kept.state, setState: (now: unknown) => (kept.state = now) }));
  vi.stubGlobal("ResizeObserver", class { observe() {} });
  vi.stubGlobal("CSS", { escape: (text: string) => text.replace(/["\\]/g, "\\$&") });
  vi.stubGlobal("requestAnimationFrame", (run: () => void) => { frame = run; return 1; });
  HTMLElement.prototype.setPointerCapture = () => undefined;
  HTMLElement.prototype.getBoundingClientRect = () => ({ left: 0, width: 200, right: 200, top: 0, bottom: 20, height: 20, x: 0, y: 0, toJSON: () => "" });
  vi.resetModules();
  await import("../../webview/main");
});

describe("the page", () => {
  it("reports that it is ready, and shows the state that it receives", () => {
    expect(sent).toEqual([{ type: "ready" }]);
    show();
    expect(one(".stats").textContent).toContain("per iteration");
    const rows = now.whatifs.estimates.filter((estimate) => estimate.name !== "batch_size").map((estimate) => Number(estimate.applicable) + Number(estimate.present !== null));
    expect(all(".whatif").length).toBe(rows.reduce((sum, one) => sum + one, 0));
    expect(one("[data-bar=memory] .figure").textContent).toContain("10.");
  });

  it.each(KINDS.flatMap((kind) => [[kind, "throughput"], [kind, "memory"]] as const))("of the %s script keeps the handle of the %s bar under the pointer, and the curve", (kind, bar) => {
    now = recorded(kind);
    show();
    const size = (): number => Number(one("input[type=number]").value);
    pointer("pointerdown", 100, bar);
    const sizes: number[] = [];
    const figures = new Set<string>();
    for (let place = 1; place <= 10; place += 1) {
      pointer("pointermove", 20 * place, bar);
      nextFrame();
      answer();
      expect(percent(one(`[data-bar="${bar}"] .handle`).style.left)).toBeCloseTo(place / 10, 2);
      expect(document.querySelector(".no-curve")).toBeNull();
      expect(Number(one(`[data-bar="${bar}"] .track`).getAttribute("aria-valuemax"))).toBe(now.profile.curve.at(-1)?.batch_size);
      sizes.push(size());
      figures.add(one("[data-bar=throughput] .figure").textContent);
    }
    expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
    expect(new Set(sizes).size).toBeGreaterThan(4);
    expect(figures.size).toBeGreaterThan(4);
    pointer("pointermove", 150, bar);
    nextFrame();
    const shown = size();
    pointer("pointerup", 150, bar);
    const written = sent.filter(({ type }) => type === "batchSize");
    expect(written).toEqual([{ type: "batchSize", batchSize: shown }]);
  });

  it("names the settings file that contains the number", () => {
    now = recorded("yaml");
    show();
    expect(one(".then").textContent).toBe("Drag a bar to try another batch size. The number is in config.yaml, line 5 (train.batch_size: 16).");
  });

  it("shows the new line of a settings file after it is written", () => {
    now = recorded("yaml");
    show({ applied: { batchSize: 32, whatifs: [] } });
    answer();
    expect(one(".then").textContent).toMatch(/^.+ per iteration\. Written into config\.yaml, line 5: train\.batch_size: 32\.$/);
    pointer("pointerdown", 100);
    pointer("pointermove", 190);
    nextFrame();
    expect(one(".then").textContent).not.toContain("Written");
  });

  it("names the largest batch that fits the GPU of a prediction", () => {
    const prediction = { gpu: "L4", predictor: "roofline", basis: "a roofline model", iteration_ms: now.profile.iteration_ms, unmeasured_share: 1, largest_batch: 512, largest_batch_traced: false, larger_untried: true, without_loading: "", loading: "" };
    show();
    expect(document.querySelector(".fits")).toBeNull();
    show({ profile: { ...now.profile, prediction, memory: { ...now.profile.memory, capacity_bytes: 24e9 } } });
    expect(one(".fits").textContent).toBe("The largest batch that fits 24 GB is 512 (extrapolated from the traced sizes; larger ones were not tried).");
    show({ profile: { ...now.profile, prediction: { ...prediction, largest_batch: null } } });
    expect(document.querySelector(".fits")).toBeNull();
  });

  it("predicts and shows the reason if the number has no place", () => {
    now = recorded("yaml");
    now = { ...now, profile: { ...now.profile, batch_size: { ...now.profile.batch_size, lives: null, reason: "It is computed." } } };
    show();
    pointer("pointerdown", 100);
    pointer("pointermove", 190);
    nextFrame();
    answer();
    pointer("pointerup", 190);
    expect(one(".then").textContent).toMatch(/per iteration.*Not written.*It is computed/);
    expect(sent.filter(({ type }) => type === "batchSize")).toEqual([]);
  });

  it("keeps the curve with a change in the code while a bar is dragged", () => {
    const fused = answerTo(now, null, ["fused_optimizer"], true);
    show({ applied: { batchSize: null, whatifs: ["fused_optimizer"] }, changes: [change("fused_optimizer", null, ["fused_optimizer"])], canVerify: true });
    answer();
    pointer("pointerdown", 20);
    pointer("pointermove", 120);
    nextFrame();
    answer();
    pointer("pointermove", 160);
    nextFrame();
    answer();
    expect(percent(one('[data-bar="throughput"] .handle').style.left)).toBeCloseTo(0.8, 2);
    expect(Number(one('[data-bar="throughput"] .track').getAttribute("aria-valuemax"))).toBe(fused.curve?.at(-1)?.batch_size);
  });

  it("shows the dragged number in the code, and removes it after a cancelled drag", () => {
    show();
    pointer("pointerdown", 20);
    pointer("pointermove", 180);
    nextFrame();
    const live = sent.filter((message) => message.type === "live");
    expect(live).toEqual([{ type: "live", batchSize: Number(one("input[type=number]").value) }]);
    pointer("pointercancel", 180);
    expect(sent.at(-1)).toEqual({ type: "live", batchSize: null });
    expect(sent.filter(({ type }) => type === "batchSize")).toEqual([]);
  });

  it("previews once per frame while a bar is dragged, and writes on release", () => {
    show();
    pointer("pointerdown", 120);
    for (let x = 125; x <= 190; x += 5) pointer("pointermove", x);
    expect(sent.filter(({ type }) => type === "simulate")).toHaveLength(0);
    nextFrame();
    expect(sent.filter(({ type }) => type === "simulate")).toHaveLength(1);
    expect(sent.filter(({ type }) => type === "batchSize")).toHaveLength(0);
    pointer("pointerup", 190);
    const written = sent.find((message) => message.type === "batchSize");
    expect(written?.batchSize).toBeGreaterThan(32);
    expect(Number(one("input[type=number]").value)).toBe(written?.batchSize);
  });

  it("opens the line on a click that does not drag", () => {
    show();
    pointer("pointerdown", 120);
    pointer("pointerup", 121);
    expect(sent.at(-1)).toEqual({ type: "open", place: { kind: "batchSize" } });
  });

  it("moves by keys, writes on Enter, discards on Escape", () => {
    show();
    const track = one('[data-bar="memory"] .track');
    const press = (key: string): boolean => track.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("ArrowRight");
    nextFrame();
    expect(track.getAttribute("aria-valuenow")).toBe("33");
    press("Escape");
    expect(track.getAttribute("aria-valuenow")).toBe("32");
    press("PageUp");
    nextFrame();
    press("Enter");
    expect(sent.at(-1)).toEqual({ type: "batchSize", batchSize: 64 });
  });

  it("requests the switch of a what-if, and shows a switched one", () => {
    show();
    const box = one('[data-key="whatif fused_optimizer"]');
    box.click();
    expect(sent.at(-1)).toEqual({ type: "toggle", whatif: "fused_optimizer", on: true });
    show({ applied: { batchSize: null, whatifs: ["fused_optimizer"] }, changes: [change("fused_optimizer", null, ["fused_optimizer"])], canVerify: true });
    expect(one('[data-key="whatif fused_optimizer"]').checked).toBe(true);
    expect(all(".actions button").map((button) => button.textContent)).toEqual(expect.arrayContaining(["Diff", "Undo", "Verify"]));
  });

  it("begins with the verdict, whose button makes the change", () => {
    show();
    const verdict = now.whatifs.verdict;
    expect(one(".verdict").textContent).toContain(verdict?.bound);
    expect(one(".verdict").textContent).toContain(verdict?.advice);
    one("[data-key='verdict change']").click();
    expect(sent.pop()).toEqual({ type: "toggle", whatif: verdict?.choice, on: true });
    one("[data-key='verdict line']").click();
    expect(sent.pop()).toMatchObject({ type: "open", place: { file: verdict?.file, line: verdict?.line } });
    show({ applied: { batchSize: null, whatifs: [verdict?.choice ?? ""] } });
    expect(all("[data-key='verdict change']")).toEqual([]);
    expect(one(".verdict").textContent).toContain("This change is in the code");
    show({ trusted: false });
    expect(all("[data-key='verdict change']")).toEqual([]);
    show({ whatifs: null });
    expect(all(".verdict")).toEqual([]);
  });

  it("shows a long mean iteration below the verdict", () => {
    const remark = "Mean iteration 21.0 ms: 2.10x the median, 1 of 10 long; other 52 %";
    const wall_time = { iterations: 10, long_iterations: 1, mean_ms: 21, typical: 0.48, data: 0, passes: 0, other: 0.52, throughput: null, rollouts: 0, evaluation: 0, checkpoints: 0, logging: 0, remark };
    show({ profile: { ...now.profile, wall_time } });
    expect(one(".verdict").textContent).toContain(remark);
    show({ profile: { ...now.profile, wall_time: { ...wall_time, remark: "" } } });
    expect(one(".verdict").textContent).not.toContain("Mean iteration");
  });

  it("writes the batch size that the verdict names", () => {
    const found = { bound: "Bound.", advice: "Advice.", choice: "batch_size=64", rewritten: true, file: "", line: 0, obstacle: "", caution: "", cell: "" };
    show({ whatifs: { ...now.whatifs, verdict: found } });
    one("[data-key='verdict change']").click();
    expect(sent.pop()).toEqual({ type: "batchSize", batchSize: 64 });
    show({ whatifs: { ...now.whatifs, verdict: { ...found, rewritten: false, obstacle: "It is set elsewhere." } } });
    expect(all("[data-key='verdict change']")).toEqual([]);
    expect(one(".verdict").textContent).toContain("By hand: It is set elsewhere.");
  });

  it("keeps Diff, Undo and Verify if a new profile includes the change", () => {
    show({ changes: [change("batch size 64", 64, [], true)], canVerify: true });
    expect(all(".actions button").map((button) => button.textContent)).toEqual(expect.arrayContaining(["Diff", "Undo", "Verify"]));
    show();
    expect(all(".actions button").map((button) => button.textContent)).not.toContain("Verify");
  });

  it("shows what the code had when it was profiled as a switch that takes it out", () => {
    const [first, ...others] = now.whatifs.estimates;
    if (!first) throw new Error("no what-if");
    const fused = { ...first, name: "fused_optimizer", applicable: false, reason: "Adam is fused already", present: "fused", removal: "available" as const };
    const whatifs = { ...now.whatifs, estimates: [fused, ...others.filter(({ name }) => name !== "fused_optimizer")] };
    show({ whatifs });
    const box = one('[data-key="present fused_optimizer"]');
    expect(box.checked).toBe(true);
    box.click();
    expect(sent.at(-1)).toMatchObject({ type: "toggle", on: false });
    show({ whatifs, removed: ["fused_optimizer"] });
    expect(one('[data-key="present fused_optimizer"]').checked).toBe(false);
  });

  it("shows a gain in colour only if its range excludes no change", () => {
    const [first] = now.whatifs.estimates.filter((estimate) => estimate.applicable && estimate.name !== "batch_size");
    if (!first) throw new Error("no what-if");
    const of = (name: string, low: number, value: number, high: number) => ({ ...first, name, present: null, speedup: value, speedup_range: { low, value, high } });
    const estimates = [of("sure", 1.1, 1.25, 1.3), of("unsure", 0.9, 1.25, 1.6), of("slower", 0.7, 0.8, 0.9)];
    show({ whatifs: { ...now.whatifs, estimates } });
    expect(all(".whatif .gain").map((gain) => gain.className.trim())).toEqual(["gain better", "gain", "gain worse"]);
  });

  it("marks a large factor from a baseline within noise, and does not show it in green", () => {
    const [first] = now.whatifs.estimates.filter((estimate) => estimate.applicable && estimate.name !== "batch_size");
    if (!first) throw new Error("no what-if");
    const huge = { ...first, present: null, speedup: 72, speedup_range: { low: 60, value: 72, high: 80 } };
    const baseline = { ...now.whatifs.baseline, iteration_ms: { low: 0.05, value: 0.2, high: 0.35 } };
    show({ whatifs: { ...now.whatifs, baseline, estimates: [huge] } });
    expect(one(".whatif .gain").className.trim()).toBe("gain");
    expect(one(".whatif").textContent).toContain("from a baseline within noise, 0.20 ms ±0.15");
  });

  it("tells what compiling costs", () => {
    const [first] = now.whatifs.estimates.filter((estimate) => estimate.applicable && estimate.name !== "batch_size");
    if (!first) throw new Error("no what-if");
    const compile = { ...first, name: "compile", one_off_s: { value: 21, low: 10, high: 40 }, break_even_iterations: 6877 };
    show({ whatifs: { ...now.whatifs, estimates: [compile] } });
    expect(one(".whatif").textContent).toContain("costs 21 s once, paid back after 6,877 iterations");
  });

  it("keeps the elements under the pointer when other parts are updated", () => {
    show();
    const [box, piece] = [one('[data-key="whatif fused_optimizer"]'), one('[data-key="part backward"]')];
    show({ progress: "trying batch size 64", stale: true });
    expect(one('[data-key="whatif fused_optimizer"]')).toBe(box);
    expect(one('[data-key="part backward"]')).toBe(piece);
    expect(document.body.textContent).toContain("stale");
    // The change is refused, so the switch goes back.
    box.click();
    expect(box.checked).toBe(true);
    show({ notice: "The file changed" });
    expect(box.checked).toBe(false);
  });

  it("reports a busy machine, and shows the later measurement on request", () => {
    show({ profile: { ...now.profile, machine_busy: true } });
    expect(one(".busy").textContent).toContain("Machine busy");
    show({ profile: { ...now.profile, set_aside: true } });
    expect(one(".busy").textContent).toContain("an earlier measurement is shown");
    one('[data-key="later"]').click();
    expect(sent).toContainEqual({ type: "command", command: "skyline.showLater" });
    show();
    expect(document.querySelector(".busy")).toBeNull();
  });

  it("shows why a rewrite was refused, and offers the code", () => {
    show({ refused: [{ name: "compile", reason: "the model is made elsewhere", snippet: "model = torch.compile(model)" }] });
    expect(one(".refused").textContent).toContain("the model is made elsewhere");
    one('[data-key="Copy compile"]').click();
    expect(sent.at(-1)).toEqual({ type: "snippet", name: "compile", how: "copy" });
  });

  it("opens the code of a clicked part, and marks the code of a hovered part", () => {
    show();
    const piece = one('[data-key="part backward"]');
    piece.dispatchEvent(new MouseEvent("pointerenter"));
    expect(sent.at(-1)).toEqual({ type: "point", place: { kind: "phase", phase: "backward" } });
    piece.click();
    expect(sent.at(-1)).toEqual({ type: "open", place: { kind: "phase", phase: "backward" } });
  });

  it("offers no run in an untrusted workspace", () => {
    show({ trusted: false });
    expect(all("button").map((button) => button.textContent).join(" ")).not.toMatch(/Profile|Verify|Predict/);
    show({ trusted: false, profile: null, whatifs: null, stage: "untrusted" });
    expect(one(".stage").textContent).toContain("not trusted");
  });

  it("gives every control a name", () => {
    show();
    for (const control of all("button, input, select, [role=slider]")) {
      const label = control.getAttribute("aria-label") ?? (control.textContent || control.closest("label")?.textContent);
      expect(label, control.outerHTML).toBeTruthy();
    }
  });

  it.each(["unprofiled", "untrusted", "profiling"] as const)("offers a plan without a profile, when it is %s", (stage) => {
    show({ stage, profile: null, trusted: stage !== "untrusted" });
    const section = one("[data-key='plan']").closest("details");
    expect(section?.hidden).toBe(false);
    expect(one(".ready").hidden).toBe(true);
    sent = [];
    section?.setAttribute("open", "");
    section?.dispatchEvent(new Event("toggle"));
    expect(sent).toEqual([{ type: "planChoices" }]);
  });

  it("requests the choices of an open section once for another script", () => {
    show({ stage: "unprofiled", profile: null });
    one("[data-key='plan']").closest("details")?.setAttribute("open", "");
    sent = [];
    const script = { uri: "file:///other.py", name: "other.py" };
    show({ stage: "unprofiled", profile: null, script });
    expect(sent).toContainEqual({ type: "planChoices" });
    sent = [];
    show({ stage: "unprofiled", profile: null, script });
    expect(sent).toEqual([]);
  });

  it("shows a comparison of GPUs without a profile in an open section", () => {
    show({ stage: "unprofiled", profile: null, comparing: true });
    const section = one("[data-key='devices']").closest("details");
    expect([section?.hidden, section?.open, one(".ready").hidden]).toEqual([false, true, false]);
    expect(scrolled).toHaveBeenCalled();
    expect(all(".section").filter((each) => !each.hidden).map((each) => each.querySelector("summary span")?.textContent)).toEqual(["Other GPUs", "Clusters"]);
    show({ stage: "unprofiled", profile: null, comparing: false, notice: "There is no GPU called 'h10'" });
    expect(one(".stage .notice").textContent).toBe("There is no GPU called 'h10'");
  });

  it("offers no run for a trace", () => {
    show({ isTrace: true });
    const shown = all(".section").filter((each) => !each.hidden).map((each) => each.querySelector("summary span")?.textContent);
    expect(shown).toEqual(["What-ifs", "Phases", "Costliest lines", "Memory at the peak", "Findings"]);
    expect(one(".board").hidden).toBe(true);
    expect(all(".whatif input")).toEqual([]);
    for (const key of ["again", "best"]) expect(document.querySelector(`[data-key="${key}"]`)).toBeNull();
  });

  it("names the measured host and rank", () => {
    const { profile } = now;
    if (!profile.iteration) throw new Error("no iteration was recorded");
    show({ profile: { ...profile, device: { ...profile.device, name: "H100", host: "gpubox" }, iteration: { ...profile.iteration, rank: 0, world_size: 2 } } });
    expect(one(".basis").textContent).toMatch(/^measured on H100 of gpubox.*, rank 0 of 2 · /);
  });

  it.each(["idle", "starting", "module"] as const)("offers no plan when it is %s", (stage) => {
    show({ stage, profile: null });
    expect(one("[data-key='plan']").closest("details")?.hidden).toBe(true);
  });
});
