import { describe, expect, it } from "vitest";
import { History, merged } from "../src/scripts/history";

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
