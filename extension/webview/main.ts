/** The page in the side bar. It shows the state that the extension sends. */

import "uplot/dist/uPlot.min.css";
import "./style.css";
import type { ProfileReport } from "../src/protocol";
import type { FromView, ToView, ViewState } from "../src/view/messages";
import { NO_PLAN } from "../src/view/plan-state";
import { NO_RUNS, type SearchAsked } from "../src/view/runs-state";
import { about, ofModule } from "./about";
import { Asker } from "./asker";
import { Board } from "./board";
import { findings, lines, memory, phases } from "./breakdown";
import { fill, h, section } from "./dom";
import { PlanPanel } from "./plan";
import { best, devices, verified } from "./results";
import { trials, watched } from "./runs";
import { byteUnit, countIn, number, rateUnit, share, text, timeUnit, withSpread } from "./units";
import { verdict } from "./verdict";
import { WhatIfs } from "./whatifs";

declare function acquireVsCodeApi(): { postMessage(message: FromView): void; getState(): unknown; setState(state: unknown): void };

/** Data that survives a reload of the window. */
interface Kept {
  readonly open: Readonly<Record<string, boolean>>;
  readonly state: ViewState | null;
}

const SECTIONS = { whatifs: "What-ifs", phases: "Phases", lines: "Costliest lines", memory: "Memory at the peak", findings: "Findings", devices: "Other GPUs", plan: "Clusters", trials: "Search by trials", watched: "Training run" } as const;
type Name = keyof typeof SECTIONS;
const PLANNED_WITHOUT_PROFILE: ReadonlySet<ViewState["stage"]> = new Set(["unprofiled", "untrusted", "profiling"]);

/** Sections that need a script that can run, so they are hidden for a trace. */
const OF_SCRIPTS: ReadonlySet<string> = new Set(["devices", "plan", "trials", "watched"]);
/** Sections that are closed at first, because their content needs a request. */
const CLOSED: ReadonlySet<string> = new Set(["devices", "plan", "trials", "watched"]);

export function start(root: HTMLElement): void {
  const api = acquireVsCodeApi();
  const post = (message: FromView): void => api.postMessage(message);
  let kept: Kept = { open: {}, state: null, ...(api.getState() as Partial<Kept> | undefined) };
  const keep = (news: Partial<Kept>): void => api.setState((kept = { ...kept, ...news }));

  const asker = new Asker(post);
  const board = new Board(post, asker);
  const whatIfs = new WhatIfs(post, asker);
  let search: SearchAsked = { budgetSeconds: 300, allow: "exact", resume: false };
  const asking = (message: FromView): void => {
    if (message.type === "search") search = message.asked;
    post(message);
  };
  const head = h("header");
  const news = h("div", { class: "news" });
  const parts = Object.fromEntries(
    Object.entries(SECTIONS).map(([name, title]) => {
      const open = kept.open[name] ?? !CLOSED.has(name);
      return [name, section(title, open, (now) => {
        keep({ open: { ...kept.open, [name]: now } });
        if (name === "plan" && now) post({ type: "planChoices" });
        if (name === "trials" && now) post({ type: "trials" });
        if (name === "watched") post({ type: "watch", follow: now });
      })];
    }),
  ) as Record<Name, ReturnType<typeof section>>;
  parts.whatifs.body.append(whatIfs.root);
  const plan = new PlanPanel(post);
  parts.plan.body.append(plan.root);
  const ofProfile = Object.entries(parts).filter(([name]) => name !== "plan");
  const body = h("div", { class: "ready" }, board.root, news, ...ofProfile.map(([, part]) => part.root));
  const stage = h("div", { class: "stage" });
  /** True while GPUs are being compared. */
  let comparing = false;
  /** True if the best combination is shown. */
  let answered = false;
  /** The script for which the choices of an open section were requested. */
  let offered = "";
  root.replaceChildren(head, stage, body, parts.plan.root);

  const show = (state: ViewState): void => {
    const { profile, script } = state;
    countIn(profile?.contents);
    fill(head, ...headline(state, post), ...verdict(state, post));
    fill(stage, ...staging(state, post), ...about(state), ...(profile ? [] : notices(state)));
    // Comparing GPUs and planning need only a trace of shapes, so they work without a profile.
    const compared = state.comparing || state.devices !== null;
    body.hidden = !profile && !compared;
    board.root.hidden = !profile || state.isTrace;
    news.hidden = !profile;
    for (const [name, part] of ofProfile) part.root.hidden = name === "devices" ? state.isTrace || !(profile || compared) : !profile || (state.isTrace && OF_SCRIPTS.has(name));
    fill(parts.devices.body, ...devices(state.devices, state.comparing, state.trusted, post));
    if (state.comparing !== comparing) {
      comparing = state.comparing;
      parts.devices.root.open = true;
      parts.devices.root.scrollIntoView({ block: "start" });
    }
    // A described model needs no script.
    parts.plan.root.hidden = state.isTrace || (!profile && !PLANNED_WITHOUT_PROFILE.has(state.stage));
    plan.show(state);
    if (parts.plan.root.open && !parts.plan.root.hidden && script && !state.plan.choices && offered !== script.uri) {
      offered = script.uri;
      post({ type: "planChoices" });
    }
    if (!profile) return;
    board.show(state);
    whatIfs.show(state);
    fill(news, ...newsOf(state, post));
    // The answer is below the curve and may be out of view.
    if (state.best && !answered) news.scrollIntoView({ block: "nearest" });
    answered = state.best !== null;
    fill(parts.phases.body, ...phases(post, profile));
    fill(parts.lines.body, ...lines(post, profile));
    fill(parts.memory.body, ...memory(post, profile));
    fill(parts.findings.body, ...findings(post, profile));
    parts.findings.note.textContent = String(profile.findings.length);
    fill(parts.trials.body, ...trials(state, search, asking));
    fill(parts.watched.body, ...watched(state, post));
  };

  window.addEventListener("message", ({ data }: MessageEvent<ToView>) => {
    if (data.type === "state") {
      show(data.state);
      keep({ state: { ...data.state, progress: "", verifying: false, comparing: false, plan: { ...data.state.plan, planning: false }, runs: { ...data.state.runs, searching: false } } });
    } else {
      asker.answered(data.id, data.estimate, data.reason);
    }
  });
  // Show the state from before the reload until the server is running again.
  if (kept.state) show({ plan: NO_PLAN, runs: NO_RUNS, ...(kept.state as Omit<ViewState, "plan" | "runs">) });
  post({ type: "ready" });
}

function headline(state: ViewState, post: (message: FromView) => void): HTMLElement[] {
  const { profile } = state;
  if (!profile) return state.script ? [h("h1", {}, state.script.name)] : [];
  const figure = (value: string, what: string): HTMLElement => h("div", { class: "stat" }, h("b", {}, value), h("span", { class: "muted" }, what));
  const peak = profile.memory.peak_bytes.value;
  const capacity = profile.memory.capacity_bytes;
  const time = timeUnit(profile.iteration_ms.value);
  const rate = profile.throughput;
  const again = state.trusted && !state.isTrace ? h("button", { class: "link", "data-key": "again", onclick: () => post({ type: "command", command: state.progress ? "skyline.cancelRun" : "skyline.profileScript" }) }, state.progress ? "Cancel" : "Profile again") : "";
  return [
    h("h1", {}, h("span", {}, state.script?.name ?? ""), state.stale ? h("span", { class: "badge", title: "The code has changed since this profile" }, "~ stale") : "", again),
    ...disturbed(profile, post),
    h(
      "div",
      { class: "stats" },
      figure(withSpread(profile.iteration_ms, time), "per iteration"),
      rate ? figure(withSpread(rate, rateUnit(rate.value)), "throughput") : "",
      // A trace may have no memory data.
      state.isTrace && peak === 0 ? "" : figure(text(peak, byteUnit(peak)), capacity ? `peak of ${text(capacity, byteUnit(capacity))}` : "peak memory"),
    ),
    h("div", { class: "muted basis", title: howMeasured(profile) }, basis(profile)),
    ...largestBatch(profile),
  ];
}

/** The largest batch that fits the GPU of a prediction. Nothing for a measurement, whose curve shows other sizes. */
function largestBatch({ prediction, memory }: ProfileReport): HTMLElement[] {
  if (!prediction || prediction.largest_batch === null || !memory.capacity_bytes) return [];
  const capacity = text(memory.capacity_bytes, byteUnit(memory.capacity_bytes)).replace(".0 ", " ");
  const how = prediction.largest_batch_traced ? "traced at that size" : "extrapolated from the traced sizes";
  const further = prediction.larger_untried ? "; larger ones were not tried" : "";
  return [h("div", { class: "fits" }, `The largest batch that fits ${capacity} is ${prediction.largest_batch} (${how}${further}).`)];
}

/** A note if other programs disturbed this measurement or a later one. The later one can still be shown. */
function disturbed(profile: ProfileReport, post: (message: FromView) => void): HTMLElement[] {
  if (!profile.set_aside) return profile.machine_busy ? [h("div", { class: "busy" }, "Machine busy: other programs slowed the script down during the measurement.")] : [];
  const show = h("button", { class: "link", "data-key": "later", onclick: () => post({ type: "command", command: "skyline.showLater" }) }, "Show the later one");
  return [h("div", { class: "busy" }, "Machine busy: an earlier measurement is shown. ", show)];
}

/** The basis of the figures. */
function basis(profile: ProfileReport): string {
  const threads = profile.device.kind === "cpu" ? `, ${profile.intraop_threads} ${profile.intraop_threads === 1 ? "thread" : "threads"}` : "";
  const host = profile.device.host ? ` of ${profile.device.host}` : "";
  const ranks = profile.iteration && profile.iteration.world_size > 1 ? `, rank ${profile.iteration.rank} of ${profile.iteration.world_size}` : "";
  const where = profile.prediction ? `predicted for ${profile.prediction.gpu}` : `measured on ${profile.device.name}${host}${threads}${ranks}`;
  return `${where} · ${new Date(profile.created).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
}

/** The accuracy of the figures. */
function howMeasured(profile: ProfileReport): string {
  const overhead = profile.overhead > 0 && !profile.prediction ? [`recorded iterations took ${number(profile.overhead, { name: "", factor: 1, decimals: 1 })} times as long as unrecorded ones`] : [];
  return [`${profile.steps.length} iterations were timed`, `the simulation of an iteration is off by ${share(profile.replay_error)}`, ...overhead].join("\n");
}

/** The message shown without a profile, or before it is complete. */
function staging(state: ViewState, post: (message: FromView) => void): HTMLElement[] {
  const button = (title: string, command: string): HTMLElement => h("button", { "data-key": command, onclick: () => post({ type: "command", command }) }, title);
  const said = (words: string, ...more: HTMLElement[]): HTMLElement[] => [h("p", {}, words), ...more];
  if (state.trouble) {
    const { message, usage, fix, more = [] } = state.trouble;
    const fixes = [...(fix ? [fix] : []), ...more].map(({ title, command }) => button(title, command));
    return [h("div", { class: "trouble", role: "alert" }, h("p", {}, message), usage ? h("pre", { class: "usage" }, usage) : "", ...fixes)];
  }
  const progress = state.progress ? [h("div", { class: "progress", role: "status" }, h("i", { class: "pulse" }), state.progress)] : [];
  switch (state.stage) {
    case "idle":
      return said("Open a Python script or notebook that trains with PyTorch. This view then shows its speed, its memory and the predicted effect of changes.");
    case "starting":
      return said("Starting Skyline…");
    case "module":
      return ofModule(state, button("Profile Training Script", "skyline.profileScript"));
    case "untrusted":
      return said("This workspace is not trusted: Skyline shows saved profiles and runs nothing. This script has no saved profile.", button("Manage Workspace Trust", "workbench.trust.manage"));
    case "unprofiled":
      return said("There is no profile of this script yet. Skyline runs it unchanged for a few iterations in a separate process.", button("Profile Training Script", "skyline.profileScript"));
    case "profiling":
      return [...progress, button("Cancel", "skyline.cancelRun")];
    default:
      return progress;
  }
}

function notices(state: ViewState): HTMLElement[] {
  return state.notice ? [h("div", { class: "notice", role: "alert" }, state.notice)] : [];
}

function newsOf(state: ViewState, post: (message: FromView) => void): HTMLElement[] {
  const batchRefused = state.refused.filter((one) => one.name.startsWith("batch_size"));
  return [
    ...notices(state),
    ...batchRefused.map((one) => h("div", { class: "notice", role: "alert" }, `Not rewritten: ${one.reason}`)),
    ...(state.verified ? [verified(state.verified)] : []),
    ...(state.best ? [best(state.best, state.whatifs?.baseline ?? null, post)] : []),
  ];
}

const root = document.getElementById("view");
if (root) start(root);
