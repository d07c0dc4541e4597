import { describe, expect, it } from "vitest";
import { History, isEmpty, merged, without } from "../src/scripts/history";
import { KeptChanges } from "../src/scripts/kept";
import { replacing } from "../src/scripts/replacing";

const uri = "file:///train.py";
const texts = (text: string): Map<string, string> => new Map([[uri, text]]);
const reading = (text: string) => (asked: string) => (asked === uri ? text : undefined);
const batch = (batchSize: number) => ({ batchSize, whatifs: [] });
const whatif = (...whatifs: string[]) => ({ batchSize: null, whatifs });

describe("the changes in the code", () => {
  it("add up, the later of two values counting", () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    history.push(whatif("amp=bf16"), texts("64"), texts("64 amp"));
    history.push(batch(128), texts("64 amp"), texts("128 amp"));
    expect(history.applied).toEqual({ batchSize: 128, whatifs: ["amp=bf16"] });
    expect(history.depth).toBe(3);
    expect(history.original).toEqual(texts("32"));
  });

  it("follow undo and redo by the text", () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    history.push(batch(96), texts("64"), texts("96"));
    expect(history.look(reading("64"))).toBe(true);
    expect(history.applied.batchSize).toBe(64);
    expect(history.look(reading("32"))).toBe(true);
    expect(history.applied).toEqual({ batchSize: null, whatifs: [] });
    expect(history.look(reading("96"))).toBe(true);
    expect(history.depth).toBe(2);
  });

  it("stay while something else is typed", () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    expect(history.look(reading("64 # a remark"))).toBe(false);
    expect(history.applied.batchSize).toBe(64);
  });

  it("forget what was undone when another is made", () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    history.look(reading("32"));
    history.push(whatif("fused_optimizer"), texts("32"), texts("32 fused"));
    expect(history.applied).toEqual({ batchSize: null, whatifs: ["fused_optimizer"] });
    expect(history.look(reading("64"))).toBe(false);
  });

  it("tell the text of every file before the first change", () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    history.push(whatif("amp"), new Map([["file:///model.py", "m"], [uri, "64"]]), new Map([["file:///model.py", "n"]]));
    expect(history.original.get(uri)).toBe("32");
    expect(history.original.get("file:///model.py")).toBe("m");
  });

  it("merge values of one what-if", () => {
    expect(merged(whatif("num_workers=2", "amp"), whatif("num_workers=4")).whatifs).toEqual(["amp", "num_workers=4"]);
  });
});

describe("changes that outlive a reload", () => {
  const memory = () => {
    const kept = new Map<string, unknown>();
    const update = async (key: string, value: unknown): Promise<void> => {
      // As an editor's store does, which keeps JSON.
      if (value === undefined) kept.delete(key);
      else kept.set(key, JSON.parse(JSON.stringify(value)));
      await Promise.resolve();
    };
    return { kept, store: new KeptChanges({ get: (key) => kept.get(key), update }) };
  };
  const made = () => {
    const history = new History();
    history.push(batch(64), texts("32"), texts("64"));
    history.push(whatif("fused_optimizer"), texts("64"), texts("64 fused"));
    return history;
  };

  it("are taken up where the text is still so", () => {
    const { store } = memory();
    store.keep(uri, "profile 1", made().states);
    const history = new History();
    expect(history.resume(store.of(uri, "profile 1"), reading("64 fused"))).toBe(true);
    expect(history.applied).toEqual({ batchSize: 64, whatifs: ["fused_optimizer"] });
    expect(history.now).toEqual(texts("64 fused"));
    expect(history.beforeLatest).toEqual(texts("64"));
  });

  it("are not where it is another, or the profile is", () => {
    const { store } = memory();
    store.keep(uri, "profile 1", made().states);
    const history = new History();
    expect(history.resume(store.of(uri, "profile 1"), reading("something else"))).toBe(false);
    expect(history.depth).toBe(0);
    expect(store.of(uri, "profile 2")).toEqual([]);
  });

  it("are kept no longer than they are in the code, nor beyond a size", () => {
    const { kept, store } = memory();
    store.keep(uri, "profile 1", made().states);
    store.keep(uri, "profile 1", []);
    expect(kept.size).toBe(0);
    const large = new History();
    large.push(batch(64), texts("a".repeat(2_000_001)), texts("b"));
    store.keep(uri, "profile 1", large.states);
    expect(kept.size).toBe(0);
  });
});

describe("a part of a question", () => {
  it("is what is left without some names", () => {
    expect(without({ batchSize: 64, whatifs: ["amp=bf16", "fused_optimizer"] }, ["batch_size", "amp"])).toEqual(whatif("fused_optimizer"));
    expect(isEmpty(without(whatif("amp=bf16"), ["amp"]))).toBe(true);
  });
});

describe("the replacement that makes one text of another", () => {
  it.each([
    ["a\nb\nc\n", "a\nB\nc\n"],
    ["same", "same"],
    ["aaa", "aaaa"],
    ["", "new"],
    ["x\r\ny\r\n", "x\r\n\r\ny\r\n"],
    ["x\r\ny", "x\ny"],
  ])("%j to %j", (from, to) => {
    const { start, end, replacement } = replacing(from, to);
    expect(from.slice(0, start) + replacement + from.slice(end)).toBe(to);
    for (const place of [start, end]) expect(from.slice(place - 1, place + 1)).not.toBe("\r\n");
  });
});
