// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Question } from "../../src/protocol";
import type { Panel as PanelType } from "../../webview/served-panel";
import { answerTo, recorded } from "../recorded";

vi.mock("uplot", () => ({ default: class { over = document.createElement("div"); cursor = {}; destroy() {} setSize() {} redraw() {} } }));
vi.mock("uplot/dist/uPlot.min.css", () => ({ default: "" }));
vi.mock("../../webview/style.css", () => ({ default: "" }));
vi.mock("../../webview/served-panel.css", () => ({ default: "" }));

const now = recorded("argparse");
const DIFF = "--- a/train.py\n+++ b/train.py\n-batch_size=32\n+batch_size=64\n";
let asked: { name: string; question: Question }[] = [];
let panel: PanelType;

/** The answer of `skyline serve`. */
const served = (name: string, question: Question): unknown => {
  if (name === "simulate" || name === "curve") return answerTo(now, question.batchSize ?? now.profile.batch_size.value, question.whatifs, name === "curve");
  if (name === "best") return { choices: ["batch_size=64", "fused_optimizer"], estimate: null, reason: "Nothing is faster.", tried: 3 };
  const told: Readonly<Record<string, unknown>> = { preview: { text: "", diff: DIFF }, apply: { text: "Written into train.py.", diff: DIFF }, revert: { text: "Undone in train.py.", diff: "" } };
  return told[name];
};
const all = (selector: string): HTMLElement[] => [...(panel.root.shadowRoot?.querySelectorAll<HTMLElement>(selector) ?? [])];
const one = (selector: string): HTMLInputElement => {
  const [found] = all(selector);
  if (!found) throw new Error(`there is no ${selector}`);
  return found as HTMLInputElement;
};
const settled = (): Promise<unknown> => new Promise((done) => setTimeout(done, 5));
const show = (profile = now.profile, writes = true): void => panel.show({ profile, whatif: now.whatifs }, writes);
const typed = async (size: number): Promise<void> => {
  one("input[type=number]").value = String(size);
  for (const event of ["input", "change"]) one("input[type=number]").dispatchEvent(new Event(event));
  await settled();
};

beforeEach(async () => {
  asked = [];
  vi.stubGlobal("fetch", (name: string, options: { body: string }) => {
    const question = JSON.parse(options.body) as Question;
    asked.push({ name, question });
    return Promise.resolve({ json: () => Promise.resolve(served(name, question)) });
  });
  vi.stubGlobal("ResizeObserver", class { observe() {} });
  vi.stubGlobal("CSS", { escape: (text: string) => text.replace(/["\\]/g, "\\$&") });
  vi.stubGlobal("requestAnimationFrame", (run: () => void) => setTimeout(run, 0));
  const { Panel } = await import("../../webview/served-panel");
  panel = new Panel();
  document.body.replaceChildren(panel.root);
});

describe("the panel of the page", () => {
  it("predicts all chosen changes together, shows the diff, and writes nothing", async () => {
    show();
    expect(all(".actions button").map((button) => button.textContent)).not.toContain("Write into the code");
    one('[data-key="whatif fused_optimizer"]').click();
    await settled();
    expect(one(".predicted").textContent).toMatch(/^Predicted: .+ per iteration · .+ (samples|images)\/s/);
    expect(one(".diff").textContent).toBe(DIFF);
    expect(all(".diff .better").map((line) => line.textContent)).toContain("+batch_size=64\n");
    expect(one('[data-key="whatif fused_optimizer"]').checked).toBe(true);
    await typed(64);
    expect(one(".batch").textContent).toContain("now 32");
    const last = { batchSize: 64, whatifs: ["fused_optimizer"] };
    expect(asked.findLast(({ name }) => name === "preview")?.question).toMatchObject(last);
    expect(asked.findLast(({ name }) => name === "simulate" || name === "curve")?.question).toEqual(last);
    expect(asked.map(({ name }) => name)).not.toContain("apply");
  });

  it("reports a missing prediction for a change that it can write", async () => {
    vi.stubGlobal("fetch", (name: string, options: { body: string }) => {
      const question = JSON.parse(options.body) as Question;
      const answer = served(name, question);
      const unknown = { ...(answer as object), applicable: false, reason: "no other batch size was measured" };
      return Promise.resolve({ json: () => Promise.resolve(name === "simulate" || name === "curve" ? unknown : answer) });
    });
    show();
    await typed(64);
    expect(one(".predicted").textContent).toBe("No prediction: no other batch size was measured");
    expect(one(".diff").textContent).toBe(DIFF);
    expect(all(".actions button").map((button) => button.textContent)).toContain("Write into the code");
  });

  it("tries the change of the verdict", async () => {
    show();
    const choice = now.whatifs.verdict?.choice ?? "";
    one(`[data-key="Try ${choice}"]`).click();
    await settled();
    expect(asked.findLast(({ name }) => name === "preview")?.question).toMatchObject({ batchSize: null, whatifs: [choice] });
    expect(all(`[data-key="Try ${choice}"]`)).toEqual([]);
  });

  it("chooses a size set by keys when its bar loses the focus", async () => {
    show();
    const track = one('[data-bar="memory"] .track');
    track.dispatchEvent(new KeyboardEvent("keydown", { key: "PageUp", cancelable: true }));
    await settled();
    expect(asked.map(({ name }) => name)).toEqual(["simulate"]);
    track.dispatchEvent(new FocusEvent("blur"));
    await settled();
    expect(asked.at(-1)).toMatchObject({ name: "preview", question: { batchSize: 64, whatifs: [] } });
  });

  it("writes the choice by a button, and reverts it", async () => {
    show();
    await typed(64);
    one('[data-key="Write into the code"]').click();
    await settled();
    expect(asked.at(-1)).toMatchObject({ name: "apply", question: { batchSize: 64, whatifs: [] } });
    expect(one(".told").textContent).toBe("Written into train.py.");
    one('[data-key="Undo"]').click();
    await settled();
    expect(asked.at(-1)?.name).toBe("revert");
    expect(one(".told").textContent).toBe("Undone in train.py.");
  });

  it("drops a choice on a click, and the part that a newer profile includes", async () => {
    show();
    await typed(64);
    one('[data-key="Reset"]').click();
    await settled();
    expect([one(".predicted").textContent, one(".diff").textContent]).toEqual(["", ""]);
    expect(one("input[type=number]").value).toBe("32");
    await typed(64);
    one('[data-key="whatif fused_optimizer"]').click();
    await settled();
    show({ ...now.profile, id: "newer", batch_size: { ...now.profile.batch_size, value: 64 } });
    await settled();
    expect(one('[data-key="whatif fused_optimizer"]').checked).toBe(true);
    one('[data-key="Write into the code"]').click();
    expect(asked.at(-1)?.question).toMatchObject({ batchSize: null, whatifs: ["fused_optimizer"] });
  });

  it("shows only the answer to the latest question, and a missing answer", async () => {
    show();
    vi.stubGlobal("fetch", (name: string) => (name === "preview" ? new Promise((done) => setTimeout(() => done({ json: () => Promise.resolve({ text: "late" }) }), 20)) : Promise.reject(new Error("gone"))));
    one('[data-key="whatif fused_optimizer"]').click();
    one('[data-key="Reset"]').click();
    await new Promise((done) => setTimeout(done, 40));
    expect(one(".told").textContent).toBe("");
    await typed(64);
    expect(one(".predicted").textContent).toContain("does not answer");
  });

  it("removes a change from the profiled code, and drops that choice after a newer profile without it", async () => {
    const estimates = now.whatifs.estimates.map((each) => (each.name === "fused_optimizer" ? { ...each, applicable: false, present: "fused", removal: "available" as const } : each));
    panel.show({ profile: now.profile, whatif: { ...now.whatifs, estimates } }, true);
    one('[data-key="present fused_optimizer"]').click();
    await settled();
    expect(asked).toEqual([{ name: "preview", question: { batchSize: null, whatifs: [], removes: ["fused_optimizer"] } }]);
    expect(one('[data-key="present fused_optimizer"]').checked).toBe(false);
    expect(one(".diff").textContent).toBe(DIFF);
    one('[data-key="present fused_optimizer"]').click();
    await settled();
    expect(one(".diff").textContent).toBe("");
    one('[data-key="present fused_optimizer"]').click();
    show({ ...now.profile, id: "newer" });
    await typed(64);
    expect(asked.at(-1)?.question).toEqual({ batchSize: 64, whatifs: [], removes: [] });
  });

  it("offers no write if the server cannot write", async () => {
    show(now.profile, false);
    await typed(64);
    expect(asked.map(({ name }) => name)).toEqual(["simulate"]);
    expect(all(".actions button").map((button) => button.textContent)).toEqual(["Find the best combination"]);
  });

  it("keeps the focus of a control in its tree", async () => {
    show();
    one('[data-key="whatif fused_optimizer"]').focus();
    one('[data-key="whatif fused_optimizer"]').click();
    await settled();
    expect((panel.root.shadowRoot?.activeElement as HTMLElement | null)?.dataset.key).toBe("whatif fused_optimizer");
  });
});
