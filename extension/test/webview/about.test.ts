// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { ViewState } from "../../src/view/messages";
import { about, ofModule } from "../../webview/about";

const state = (news: Partial<ViewState>): ViewState => ({ stage: "unprofiled", script: { uri: "file:///train.py", name: "train.py" }, module: null, arguments: "", ...news }) as ViewState;
const words = (elements: HTMLElement[]): string[] => elements.map((element) => element.textContent);
const button = document.createElement("button");

describe("the notes about the script", () => {
  it("are empty for a script without arguments", () => {
    expect(about(state({}))).toEqual([]);
  });

  it("name the script of the module in the editor, and the arguments", () => {
    expect(words(about(state({ arguments: "--lr 1", command: "torchrun --nproc-per-node 2 train.py --lr 1" })))).toEqual(["Profiled as torchrun --nproc-per-node 2 train.py --lr 1"]);
    const said = words(about(state({ module: { name: "data.py", scripts: ["train.py"] }, arguments: "--lr 1" })));
    expect(said).toEqual(["data.py has no training loop of its own: train.py trains with it.", "Profiled with the arguments --lr 1"]);
  });

  it("name the scripts of a module with a button, or the setting for one", () => {
    const several = ofModule(state({ stage: "module", module: { name: "data.py", scripts: ["train.py", "tools/ablation.py"] } }), button);
    expect(words(several)[0]).toContain("train.py, tools/ablation.py");
    expect(several).toContain(button);
    const none = ofModule(state({ stage: "module", module: { name: "data.py", scripts: [] } }), button);
    expect(words(none)[0]).toContain("skyline.profile.entryPoint");
    expect(none).not.toContain(button);
  });
});
