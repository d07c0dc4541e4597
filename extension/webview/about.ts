/** Notes about the script shown: the module in the editor, and the script's arguments. */

import type { ViewState } from "../src/view/messages";
import { h } from "./dom";

/** The lines shown with the figures, or with the button to profile. */
export function about(state: ViewState): HTMLElement[] {
  const { module, script } = state;
  const lines = [
    ...(module && script && state.stage !== "module" ? [`${module.name} has no training loop of its own: ${script.name} trains with it.`] : []),
    ...(state.command ? [`Profiled as ${state.command}`] : state.arguments ? [`Profiled with the arguments ${state.arguments}`] : []),
  ];
  return lines.map((line) => h("p", { class: "muted" }, line));
}

/** The message for a module that several scripts, or none, train with. */
export function ofModule({ module }: ViewState, profile: HTMLElement): HTMLElement[] {
  const name = module?.name ?? "This file";
  if (!module || module.scripts.length === 0) {
    return [h("p", {}, `${name} has no training loop, and no script in this folder was found that trains with it. Open the script with the training loop, or name it in the setting skyline.profile.entryPoint.`)];
  }
  return [h("p", {}, `${name} has no training loop of its own. These scripts train with it: ${module.scripts.join(", ")}.`), profile];
}
