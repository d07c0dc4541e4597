/** The verdict: the cause that bounds the step, the most helpful change with a button to make it, and the mean iteration if it is long. */

import type { ProfileReport, StepVerdict } from "../src/protocol";
import type { FromView, ViewState } from "../src/view/messages";
import { link, nameOf, sourceOf } from "./breakdown";
import { h } from "./dom";

const BATCH_SIZE = "batch_size";

export function verdict(state: ViewState, post: (message: FromView) => void): HTMLElement[] {
  const { profile } = state;
  const found = state.whatifs?.verdict;
  if (!found || !profile) return [];
  return [
    h(
      "div",
      { class: "verdict" },
      h("div", {}, found.bound, found.file ? " " : "", found.file ? place(profile, found, post) : ""),
      h("div", {}, found.advice, " ", action(state, found.choice, found.rewritten, post)),
      profile.wall_time?.remark ? h("div", { class: "muted" }, profile.wall_time.remark) : "",
      found.obstacle ? h("div", { class: "muted" }, `By hand: ${found.obstacle}`) : "",
    ),
  ];
}

function place(profile: ProfileReport, found: StepVerdict, post: (message: FromView) => void): HTMLElement {
  const { file, line } = found;
  const source = sourceOf(profile, file, line);
  return link(post, { kind: "line", file, line, source }, { class: "link", "data-key": "verdict line" }, nameOf(found));
}

/** The button that makes the change. A text if the change is already made, and nothing if it cannot be made here. */
function action(state: ViewState, choice: string | null, rewritten: boolean, post: (message: FromView) => void): HTMLElement | string {
  if (choice === null) return "";
  const [name, value] = choice.split("=");
  if (state.applied.whatifs.some((one) => one.split("=")[0] === name) || (name === BATCH_SIZE && state.applied.batchSize !== null)) return h("span", { class: "muted" }, "This change is in the code.");
  if (!rewritten || !state.trusted) return "";
  const message: FromView = name === BATCH_SIZE ? { type: "batchSize", batchSize: Number(value) } : { type: "toggle", whatif: choice, on: true };
  return h("button", { class: "link", "data-key": "verdict change", title: `Write ${choice} into the code`, onclick: () => post(message) }, "Make this change");
}
