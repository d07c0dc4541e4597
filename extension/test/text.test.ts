import { describe, expect, it } from "vitest";
import { exactLine, lineNow } from "../src/editor/place";
import { touchedLines } from "../src/editor/touched";
import { importsTorch } from "../src/editor/training-file";

const change = (start: number, end: number, text: string) => ({ range: { start: { line: start }, end: { line: end } }, text });

describe("lines that an edit touches", () => {
  it("are the line itself if only a number is replaced", () => {
    expect([...touchedLines(new Set(), [change(25, 25, "64")])]).toEqual([25]);
  });

  it("are only the new lines if whole lines are inserted", () => {
    expect([...touchedLines(new Set(), [change(3, 3, "a\nb\n")])]).toEqual([3, 4]);
  });

  it("move with text inserted above them", () => {
    expect([...touchedLines(new Set([10]), [change(2, 2, "x\n")])].sort((a, b) => a - b)).toEqual([2, 11]);
  });

  it("are lines of the text after all changes of one edit", () => {
    const lines = touchedLines(new Set(), [change(2, 2, "x\n"), change(10, 10, "y")]);
    expect([...lines].sort((a, b) => a - b)).toEqual([2, 11]);
  });
});

describe("a line of the profile in the current text", () => {
  const text = ["import torch", "", "for x in loader:", "    step()", "step()"];

  it("is the nearest line with the same text", () => {
    expect(lineNow(text, 5, "step()")).toBe(4);
    expect(lineNow(text, 1, "for x in loader:")).toBe(2);
  });

  it("stays at its old place if no line has the same text", () => {
    expect(lineNow(text, 2, "gone()")).toBe(1);
    expect(lineNow(text, 99, "gone()")).toBe(4);
    expect(exactLine(text, 2, "gone()")).toBeNull();
  });
});

describe("files that need a server", () => {
  it.each(["import torch", "from torch import nn", "import os, torch", "  import torch.nn as nn", "import lightning as L", "from transformers import Trainer"])("%s", (line) => {
    expect(importsTorch(`"""Doc."""\n${line}\n`)).toBe(true);
  });

  it.each(["import os", "# import torch", "import torchlight", "print('import torch')", "from mytorch import x"])("not %s", (line) => {
    expect(importsTorch(`${line}\n`)).toBe(false);
  });
});
