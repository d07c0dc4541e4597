/** What is to be said of the script on show beside its figures: whose module the editor holds, and what it is given. */

import { notebookWords } from "../src/editor/notebook-words";
import type { ViewState } from "../src/view/messages";
import { h } from "./dom";

/** Lines that stand with the figures, or with the invitation to measure them. */
export function about(state: ViewState): HTMLElement[] {
  const { module, script } = state;
  const lines = [
    ...(module && script && state.stage !== "module" ? [`${module.name} has no training loop of its own: ${script.name} trains with it.`] : []),
    ...(state.arguments ? [`Profiled with the arguments ${state.arguments}`] : []),
  ];
  return lines.map((line) => h("p", { class: "muted" }, line));
}

/** A module that several scripts train with, or none. */
export function ofModule({ module }: ViewState, profile: HTMLElement): HTMLElement[] {
  const name = module?.name ?? "This file";
  if (!module || module.scripts.length === 0) {
    return [h("p", {}, `${name} has no training loop, and no script in this folder was found that trains with it. Open the script that trains, or name it in the setting skyline.profile.entryPoint.`)];
  }
  return [h("p", {}, `${name} has no training loop of its own. These scripts train with it: ${module.scripts.join(", ")}.`), profile];
}

/** A notebook. */
export function ofNotebook(state: ViewState): HTMLElement[] {
  return [h("p", {}, notebookWords(state.notebook))];
}
