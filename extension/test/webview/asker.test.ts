import { describe, expect, it, vi } from "vitest";
import type { EstimateReport } from "../../src/protocol";
import type { FromView } from "../../src/view/messages";
import { Asker } from "../../webview/asker";

const question = (batchSize: number) => ({ batchSize, whatifs: [] });
const estimate = (batch_size: number) => ({ batch_size }) as EstimateReport;

describe("questions while a bar is dragged", () => {
  it("are sent one at a time, the newest next", () => {
    const sent: FromView[] = [];
    const asker = new Asker((message) => sent.push(message));
    const answered = vi.fn<(batchSize: number | null | undefined) => void>();
    for (const size of [33, 34, 35, 36]) asker.ask(question(size), false, (found) => answered(found?.batch_size));
    expect(sent).toEqual([{ type: "simulate", id: 1, question: question(33), curve: false }]);
    asker.answered(1, estimate(33), "");
    expect(sent.at(-1)).toMatchObject({ id: 2, question: question(36) });
    asker.answered(2, estimate(36), "");
    expect(answered.mock.calls).toEqual([[33], [36]]);
    expect(sent).toHaveLength(2);
  });

  it("ignore an unexpected answer", () => {
    const asker = new Asker(() => undefined);
    const answered = vi.fn();
    asker.ask(question(33), false, answered);
    asker.answered(99, estimate(1), "");
    expect(answered).not.toHaveBeenCalled();
  });

  it("keep a request for a curve", () => {
    const sent: FromView[] = [];
    const asker = new Asker((message) => sent.push(message));
    asker.ask(question(1), false, () => undefined);
    asker.ask(question(2), true, () => undefined);
    asker.ask(question(3), false, () => undefined);
    asker.answered(1, null, "no");
    expect(sent.at(-1)).toMatchObject({ question: question(3), curve: true });
  });
});
