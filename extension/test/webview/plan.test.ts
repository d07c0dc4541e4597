// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { FromView, ViewState } from "../../src/view/messages";
import { NO_PLAN, type PlanState } from "../../src/view/plan-state";
import { PlanPanel } from "../../webview/plan";
import { choices, report, timeline } from "../planned";

const asked = { cluster: "dgx-a100", model: "", gpus: "8", amount: "", budget: "", deadline: "" };

let sent: FromView[] = [];
let panel: PlanPanel;
const show = (plan: Partial<PlanState> = {}, trusted = true, profile: object | null = {}): void => panel.show({ trusted, profile, plan: { ...NO_PLAN, choices, ...plan } } as ViewState);
const key = (name: string): HTMLInputElement => {
  const found = panel.root.querySelector<HTMLInputElement>(`[data-key="${name}"]`);
  if (!found) throw new Error(`there is no ${name}`);
  return found;
};
const words = (selector: string): string[] => [...panel.root.querySelectorAll(selector)].map((element) => element.textContent);

beforeEach(() => {
  sent = [];
  vi.stubGlobal("CSS", { escape: (text: string) => text });
  panel = new PlanPanel((message) => sent.push(message));
  document.body.replaceChildren(panel.root);
});

describe("the question", () => {
  it("offers the clusters and models of the server, and names the next step", () => {
    show();
    expect(words("[data-key='plan cluster'] option")).toEqual(["dgx-a100 (8 × A100, $32.77/h)", "dgx-h100 (8 × H100, $32.77/h)"]);
    expect(words("[data-key='plan model'] option")).toEqual(["this script", "gpt2", "llama3-8b"]);
    expect(panel.root.textContent).toContain("Choose a cluster, which need not be present");
  });

  it("is sent by the button and by Enter, and is kept while answers arrive", () => {
    show();
    key("plan cluster").value = "dgx-h100";
    key("plan gpus").value = " 8..64 ";
    key("plan").click();
    expect(sent).toEqual([{ type: "plan", asked: { ...asked, cluster: "dgx-h100", gpus: "8..64" } }]);
    show({ planning: true });
    expect(key("plan cluster").value).toBe("dgx-h100");
    key("plan amount").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect(sent).toHaveLength(2);
  });

  it("can be cancelled", () => {
    show({ planning: true });
    expect(key("plan").textContent).toBe("Planning… cancel");
    key("plan").click();
    expect(sent).toEqual([{ type: "command", command: "skyline.cancelRun" }]);
  });

  it("about a model counts tokens", () => {
    show();
    key("plan model").value = "gpt2";
    key("plan model").dispatchEvent(new Event("change"));
    expect(key("plan amount").placeholder).toBe("10B");
    expect(words(".question label").join(" ")).toContain("tokens");
  });

  it("is restored after a reload of the window", () => {
    show({ asked: { ...asked, cluster: "dgx-h100", model: "gpt2", amount: "10B" } });
    expect([key("plan cluster").value, key("plan model").value, key("plan amount").value]).toEqual(["dgx-h100", "gpt2", "10B"]);
  });

  it("that the server refuses shows the reason", () => {
    show({ asked, reason: "12 GPUs are not a whole number of nodes of dgx-a100. A node has 8 GPUs." });
    expect(words(".notice")).toEqual(["12 GPUs are not a whole number of nodes of dgx-a100. A node has 8 GPUs."]);
  });
});

describe("the table", () => {
  it("ranks the strategies with their figures, and lists those left out", () => {
    show({ asked, report });
    expect(words("thead th")).toEqual(["step", "samples/s", "memory"]);
    expect(words("tbody:first-of-type tr > *")).toEqual(["1. ddp 8, micro-batch 32 x 1", "80.0 ms ±8.0", "3,200", "31.0 GB"]);
    expect(words(".rest .row")).toEqual(["126: does not fit the GPU's memory", "ddp 8, micro-batch 64 x 1 on 8 GPUs needs 97.1 GB of 80.8 GB", "a data sheet"]);
    key("plan row 2").click();
    expect(sent).toEqual([{ type: "planRow", row: 2 }]);
  });

  it("has time and cost on request, and names rows beyond the limits", () => {
    const [first, second] = report.rows.map((row) => ({ ...row, hours: { value: 60, low: 50, high: 70 }, usd: { value: 1966, low: 1, high: 2 } }));
    if (!first || !second) throw new Error("no rows");
    show({ asked, report: { ...report, rows: [first, { ...second, objection: "costs $1,966" }] } });
    expect(words("thead th").slice(-2)).toEqual(["time", "cost"]);
    expect(words("tbody:first-of-type td").slice(-2)).toEqual(["2.5 d", "$1,966"]);
    expect(panel.root.querySelector("tbody:last-child")?.getAttribute("title")).toContain("the training costs $1,966");
  });

  it("without a row shows the cause and the next step", () => {
    show({ asked, report: { ...report, rows: [], advice: "No strategy fits. Take more GPUs." } });
    expect(words(".notice")).toEqual(["No strategy fits. Take more GPUs."]);
  });
});

describe("an opened row", () => {
  it("shows its explanation and its timeline", () => {
    show({ asked, report, opened: { row: 2, timeline: null } });
    expect(words(".opened")[0]).toContain("15 % slower than the fastest on 8 GPUs: communication +15 %");
    expect(words(".opened")[0]).toContain("simulating…");
    show({ asked, report, opened: { row: 2, timeline } });
    expect(words(".lane > span")).toEqual(["compute", "communication"]);
    const pieces = [...panel.root.querySelectorAll<HTMLElement>(".lane-track > i")].map(({ className, style, title }) => [className, style.left, style.width, title]);
    expect(pieces).toEqual([
      ["forward", "0%", "25%", "forward 0: 20.0 ms"],
      ["backward", "25%", "50%", "3 pieces, the longest backward 0: 40.0 ms"],
      ["communication", "50%", "50%", "reduce 0: 40.0 ms"],
    ]);
    expect(key("plan row 2").getAttribute("aria-expanded")).toBe("true");
  });

  it("of a pipeline lists the memory and the layers of its stages", () => {
    const rows = report.rows.map((row) => ({ ...row, stage_memory_bytes: [31e9, 27e9], stage_layers: ["input, blocks 0-6", "blocks 7-11, output"] }));
    show({ asked, report: { ...report, rows }, opened: { row: 2, timeline } });
    expect(words(".opened")[0]).toContain("Memory of the stages: 31.0 GB, 27.0 GB. Layers of the stages: input, blocks 0-6; blocks 7-11, output.");
  });

  it("is written into the code if a rewrite exists and the workspace is trusted", () => {
    show({ asked, report, opened: { row: 1, timeline } });
    key("plan write").click();
    expect(sent).toEqual([{ type: "applyTogether", question: { batchSize: null, whatifs: ["data_parallel=8"] } }]);
    show({ asked, report, opened: { row: 1, timeline } }, false);
    expect(panel.root.querySelector("[data-key='plan write']")).toBeNull();
    show({ asked, report, opened: { row: 2, timeline } });
    expect(panel.root.querySelector("[data-key='plan write']")).toBeNull();
    expect(words(".opened")[0]).toContain("writes code only for data and sharded parallelism");
  });

  it("is not written before the script is profiled", () => {
    show({ asked, report, opened: { row: 1, timeline } }, true, null);
    expect(panel.root.querySelector("[data-key='plan write']")).toBeNull();
    expect(words(".opened")[0]).toContain("once the script is profiled");
  });

  it("is saved for Perfetto", () => {
    show({ asked, report, opened: { row: 2, timeline } });
    key("plan perfetto").click();
    expect(sent).toEqual([{ type: "planPerfetto", row: 2 }]);
  });
});
