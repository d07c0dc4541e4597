/** Breakdown of the iteration: phases, memory by owner, most expensive lines, findings. Each part links to its code. */

import type { ProfileReport } from "../src/protocol";
import type { FromView, Place } from "../src/view/messages";
import { h } from "./dom";
import { byteUnit, number, share, text, timeUnit } from "./units";

type Post = (message: FromView) => void;

const PHASES = ["data", "forward", "backward", "optimizer", "communication", "other"] as const;
const OWNERS = ["parameters", "gradients", "optimizer", "activations", "other"] as const;
const MOST_LINES = 8;

/** A button that marks its code on hover and opens it on click. */
export function link(post: Post, place: Place, attributes: Record<string, string>, ...children: (Node | string)[]): HTMLElement {
  return h(
    "button",
    {
      ...attributes,
      class: `plain ${attributes.class ?? ""}`,
      onclick: () => post({ type: "open", place }),
      onpointerenter: () => post({ type: "point", place }),
      onpointerleave: () => post({ type: "point", place: null }),
      onfocus: () => post({ type: "point", place }),
      onblur: () => post({ type: "point", place: null }),
    },
    ...children,
  );
}

interface Part {
  readonly name: string;
  readonly value: number;
  readonly text: string;
  readonly place: Place;
}

/** Parts of a whole as a stacked strip and as a list with figures. */
function stacked(post: Post, parts: readonly Part[]): HTMLElement[] {
  const shown = parts.filter((part) => part.value > 0);
  const whole = shown.reduce((sum, part) => sum + part.value, 0);
  const strip = h("div", { class: "strip" });
  const list = h("div", { class: "parts" });
  for (const part of shown) {
    const piece = link(post, part.place, { class: `piece ${part.name}`, "data-key": `piece ${part.name}`, "aria-label": `${part.name} ${part.text}`, title: `${part.name}: ${part.text}`, tabindex: "-1" });
    piece.style.flexGrow = String(part.value / whole);
    strip.append(piece);
    const swatch = h("i", { class: `swatch ${part.name}` });
    list.append(link(post, part.place, { class: "part", "data-key": `part ${part.name}` }, swatch, h("span", { class: "name" }, part.name), h("span", { class: "figure" }, part.text), h("span", { class: "muted share" }, share(part.value / whole))));
  }
  return [strip, list];
}

export function phases(post: Post, profile: ProfileReport): HTMLElement[] {
  const unit = timeUnit(...Object.values<number>({ ...profile.phases }));
  return stacked(post, PHASES.map((name) => ({ name, value: profile.phases[name], text: text(profile.phases[name], unit), place: { kind: "phase", phase: name } as const })));
}

export function memory(post: Post, profile: ProfileReport): HTMLElement[] {
  const { breakdown, at_peak } = profile.memory;
  const unit = byteUnit(...Object.values<number>({ ...breakdown }));
  const owners = stacked(post, OWNERS.map((name) => ({ name, value: breakdown[name], text: text(breakdown[name], unit), place: { kind: "memory" } as const })));
  const lines = at_peak.slice(0, 4).map((spot) => row(post, spot, text(spot.size_bytes, byteUnit(spot.size_bytes)), ""));
  return lines.length > 0 ? [...owners, h("div", { class: "muted caption" }, "lines that hold most of it"), ...lines] : owners;
}

export function lines(post: Post, profile: ProfileReport): HTMLElement[] {
  const shown = profile.lines.filter((line) => line.line > 0).slice(0, MOST_LINES);
  const unit = timeUnit(...shown.map((line) => line.self_ms));
  return shown.map((line) => row(post, line, text(line.self_ms, unit), share(line.share)));
}

export function findings(post: Post, profile: ProfileReport): HTMLElement[] {
  if (profile.findings.length === 0) return [h("div", { class: "muted" }, "No findings.")];
  return profile.findings.map((finding) => {
    const cost = finding.cost_ms > 0 ? [h("span", { class: "muted" }, `${number(finding.cost_ms, timeUnit(finding.cost_ms))} ${timeUnit(finding.cost_ms).name}`)] : [];
    const code = h("span", { class: "code" }, finding.code);
    if (finding.line === 0) return h("div", { class: "finding" }, code, finding.title, ...cost);
    const place = { kind: "line", file: finding.file, line: finding.line, source: sourceOf(profile, finding.file, finding.line) } as const;
    return link(post, place, { class: "finding", "data-key": `finding ${finding.code} ${finding.line}` }, code, h("span", {}, finding.title), ...cost);
  });
}

function row(post: Post, spot: Spot & { readonly source: string }, figure: string, part: string): HTMLElement {
  const place = { kind: "line", file: spot.file, line: spot.line, source: spot.source } as const;
  const name = nameOf(spot);
  return link(
    post,
    place,
    { class: "line", "data-key": `line ${spot.file}:${spot.line} ${figure}`, title: name },
    h("code", {}, spot.source || name),
    h("span", { class: "figure" }, figure),
    h("span", { class: "muted share" }, part),
  );
}

/** A line of a report. `cell` is its place in a notebook, empty in other files. */
interface Spot {
  readonly file: string;
  readonly line: number;
  readonly cell: string;
}

/** The name of a line: `train.py:12`, or `In [3]:2` in a notebook. */
export function nameOf({ file, line, cell }: Spot): string {
  return cell || `${file.replace(/^.*[/\\]/, "")}:${line}`;
}

/** The text of a line that has a cost. Empty if it has none. */
export function sourceOf(profile: ProfileReport, file: string, line: number): string {
  return profile.lines.find((one) => one.file === file && one.line === line)?.source ?? "";
}
