// @vitest-environment jsdom
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { FromView, ViewState } from "../../src/view/messages";

vi.mock("uplot", () => ({ default: class { over = document.createElement("div"); cursor = {}; destroy() {} setSize() {} redraw() {} } }));
vi.mock("uplot/dist/uPlot.min.css", () => ({}));
vi.mock("../../webview/style.css", () => ({}));

const report = JSON.parse(readFileSync(join(import.meta.dirname, "../fixtures/report.json"), "utf8")) as Pick<ViewState, "profile" | "whatifs">;
const state = (news: Partial<ViewState> = {}): ViewState => ({
  stage: "ready",
  script: { uri: "file:///home/ada/project/train.py", name: "train.py" },
  trouble: null,
  progress: "",
  stale: false,
  trusted: true,
  ...report,
  applied: { batchSize: null, whatifs: [] },
  refused: [],
  notice: "",
  verifying: false,
  verified: null,
  comparing: false,
  devices: null,
  best: null,
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
const pointer = (type: string, clientX: number): void => {
  const event = new MouseEvent(type, { clientX, button: 0, bubbles: true });
  one('[data-bar="throughput"] .track').dispatchEvent(Object.assign(event, { pointerId: 1 }));
};
const nextFrame = (): void => {
  const run = frame;
  frame = null;
  run?.();
};

beforeEach(async () => {
  sent = [];
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
  it("says that it is ready, and shows what it is sent", () => {
    expect(sent).toEqual([{ type: "ready" }]);
    show();
    expect(one(".stats").textContent).toContain("per iteration");
    expect(all(".whatif").length).toBe(report.whatifs?.estimates.filter((estimate) => estimate.applicable && estimate.name !== "batch_size").length);
    expect(one("[data-bar=memory] .figure").textContent).toBe("10.6 MB");
  });

  it("previews once a frame while a bar is dragged, and writes when it is let go", () => {
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

  it("moves by keys, writes on Enter, forgets on Escape", () => {
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

  it("asks for a what-if to be switched, and shows one that is", () => {
    show();
    const box = one('[data-key="whatif fused_optimizer"]');
    box.click();
    expect(sent.at(-1)).toEqual({ type: "toggle", whatif: "fused_optimizer", on: true });
    show({ applied: { batchSize: null, whatifs: ["fused_optimizer"] } });
    expect(one('[data-key="whatif fused_optimizer"]').checked).toBe(true);
    expect(all(".actions button").map((button) => button.textContent)).toEqual(expect.arrayContaining(["Diff", "Take back", "Verify"]));
  });

  it("says why a rewrite was refused, and offers the code", () => {
    show({ refused: [{ name: "compile", reason: "the model is made elsewhere", snippet: "model = torch.compile(model)" }] });
    expect(one(".refused").textContent).toContain("the model is made elsewhere");
    one('[data-key="Copy compile"]').click();
    expect(sent.at(-1)).toEqual({ type: "snippet", name: "compile", how: "copy" });
  });

  it("goes to the code of what is clicked, and marks that of what is pointed at", () => {
    show();
    const piece = one('[data-key="part backward"]');
    piece.dispatchEvent(new MouseEvent("pointerenter"));
    expect(sent.at(-1)).toEqual({ type: "point", place: { kind: "phase", phase: "backward" } });
    piece.click();
    expect(sent.at(-1)).toEqual({ type: "open", place: { kind: "phase", phase: "backward" } });
  });

  it("runs nothing where the workspace is not trusted", () => {
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
});
