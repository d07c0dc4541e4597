/** Chart of throughput by batch size with its uncertainty band and the memory limit. If there is room, also of memory. */

import uPlot from "uplot";
import type { CurvePoint, ProfileReport } from "../src/protocol";
import { h } from "./dom";
import type { Scale } from "./scale";
import { byteUnit, number, rateUnit, text, withSpread } from "./units";

const HEIGHT_PX = 150;
/** Width from which there is room for the axis of memory on the right. */
const WIDE_PX = 400;
/** uPlot's codes for a logarithmic axis and for the right side. Their named constants do not exist at run time. */
const LOGARITHMIC: object = { distr: 3, log: 2 };
const RIGHT: object = { side: 1 };

export class Curve {
  readonly root = h("div", { class: "curve", role: "img" });
  readonly #legend = h("div", { class: "legend" });
  #plot: uPlot | null = null;
  #points: readonly CurvePoint[] = [];
  #own: number | null = null;
  #asked: number | null = null;
  #limit: number | null = null;
  #wide = false;

  constructor(private readonly onPick: (batchSize: number) => void) {
    this.root.append(this.#legend);
    new ResizeObserver(() => {
      if (this.#width() >= WIDE_PX !== this.#wide) this.#make();
      else this.#plot?.setSize({ width: this.#width(), height: HEIGHT_PX });
    }).observe(this.root);
    // The chart is a canvas, so it must be redrawn when the theme changes.
    new MutationObserver(() => this.#make()).observe(document.body, { attributes: true, attributeFilter: ["class", "data-vscode-theme-id"] });
  }

  /** Show another curve. */
  show(profile: ProfileReport, points: readonly CurvePoint[], scale: Scale | null): void {
    this.#own = profile.batch_size.value;
    this.#limit = largestThatFits(scale, profile.memory.usable_bytes);
    this.#points = points;
    this.#make();
  }

  /** Mark the batch size chosen by the user. */
  mark(batchSize: number | null): void {
    if (batchSize === this.#asked) return;
    this.#asked = batchSize;
    this.#plot?.redraw(false);
  }

  #make(): void {
    this.#plot?.destroy();
    this.#plot = null;
    this.#wide = this.#width() >= WIDE_PX;
    const points = this.#points;
    if (points.length < 2) return;
    const [ink, grid, line, warn] = colours();
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: `11px ${fontOf()}` };
    const unit = rateUnit(...points.map((point) => point.throughput.value));
    const range: uPlot.Scale.Range = (_, __, high) => [0, high * 1.05];
    const peaks = points.map((point) => point.peak_bytes.value);
    const bytes = byteUnit(...peaks);
    const memory: uPlot.Series = { scale: "memory", stroke: ink, width: 1.5, dash: [5, 4], points: { show: false } };
    const right: uPlot.Axis = { ...axis, ...RIGHT, scale: "memory", size: 64, grid: { show: false }, values: (_, sizes) => sizes.map((size) => text(size, bytes)) };
    const options: uPlot.Options = {
      width: this.#width(),
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      padding: [8, 10, 0, 0],
      scales: { x: { time: false, ...LOGARITHMIC }, y: { range }, ...(this.#wide ? { memory: { range } } : {}) },
      series: [
        {},
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke: line, width: 2, points: { show: true, size: 5, fill: line } },
        ...(this.#wide ? [memory] : []),
      ],
      bands: [{ series: [2, 1], fill: faint(line) }],
      axes: [
        // By default the library labels only some positions of a logarithmic axis.
        { ...axis, splits: () => sparse(points.map((point) => point.batch_size)), filter: (_, sizes) => sizes, values: (_, sizes) => sizes.map(String), size: 24 },
        { ...axis, size: 52, values: (_, rates) => rates.map((rate) => (rate >= 10_000 ? `${rate / 1000}k` : String(rate))) },
        ...(this.#wide ? [right] : []),
      ],
      hooks: {
        draw: [(plot) => this.#drawMarks(plot, ink, line, warn)],
        setCursor: [(plot) => this.#read(plot.cursor.idx ?? null)],
      },
    };
    this.#plot = new uPlot(
      options,
      [
        points.map((point) => point.batch_size),
        points.map((point) => point.throughput.low),
        points.map((point) => point.throughput.high),
        points.map((point) => point.throughput.value),
        ...(this.#wide ? [peaks] : []),
      ],
      this.root,
    );
    this.#plot.over.addEventListener("click", () => {
      const size = points[this.#plot?.cursor.idx ?? -1]?.batch_size;
      if (size !== undefined) this.onPick(size);
    });
    this.root.setAttribute(
      "aria-label",
      `Throughput over the batch size: ${points.map((point) => `${point.batch_size}: ${number(point.throughput.value, unit)}`).join(", ")} samples per second`,
    );
    this.#read(null);
  }

  #read(index: number | null): void {
    const point = index === null ? undefined : this.#points[index];
    if (!point) {
      const rate = `${rateUnit().name} by batch size${this.#wide ? " (dashed: peak memory)" : ""}`;
      this.#legend.textContent = this.#limit === null ? `${rate}, with uncertainty band` : `${rate}; memory is full beyond ${this.#limit}`;
      return;
    }
    const rate = withSpread(point.throughput, rateUnit(point.throughput.value));
    const memory = text(point.peak_bytes.value, byteUnit(point.peak_bytes.value));
    const basis = point.measured ? "measured" : point.extrapolated ? "extrapolated" : "fitted";
    this.#legend.textContent = `${point.batch_size}: ${rate} · ${memory} · ${basis}`;
  }

  #drawMarks(plot: uPlot, ink: string, line: string, warn: string): void {
    const { ctx, bbox } = plot;
    const upright = (batchSize: number, colour: string, dashed: boolean): void => {
      const x = Math.round(plot.valToPos(batchSize, "x", true)) + 0.5;
      // The largest batch size is at the right edge, and rounding can move it by up to a pixel.
      if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
      ctx.save();
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.setLineDash(dashed ? [4 * devicePixelRatio, 3 * devicePixelRatio] : []);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    };
    if (this.#own !== null) upright(this.#own, ink, true);
    if (this.#asked !== null && this.#asked !== this.#own) upright(this.#asked, line, false);
    if (this.#limit !== null) upright(this.#limit, warn, true);
  }

  #width(): number {
    return Math.max(120, this.root.clientWidth);
  }
}

/** The largest batch size on the curve that fits into memory. Null if all sizes fit or this is unknown. */
function largestThatFits(scale: Scale | null, usableBytes: number | null): number | null {
  if (!scale || usableBytes === null || scale.value("memory", scale.largest) <= usableBytes) return null;
  let [fits, not] = [scale.smallest, scale.largest];
  while (not - fits > 1) {
    const middle = Math.floor((fits + not) / 2);
    if (scale.value("memory", middle) <= usableBytes) fits = middle;
    else not = middle;
  }
  return fits;
}

/** The sizes to label: each at least 1.6 times the previous one, so that labels do not overlap. */
function sparse(sizes: readonly number[]): number[] {
  const kept: number[] = [];
  for (const size of sizes) if (size >= 1.6 * (kept.at(-1) ?? 0)) kept.push(size);
  return kept;
}

function colours(): [string, string, string, string] {
  const style = getComputedStyle(document.body);
  const of = (name: string, otherwise: string): string => style.getPropertyValue(name).trim() || otherwise;
  return [
    of("--vscode-descriptionForeground", "#888"),
    of("--vscode-editorWidget-border", "rgba(128,128,128,.3)"),
    of("--vscode-charts-blue", "#3794ff"),
    of("--vscode-charts-red", "#f14c4c"),
  ];
}

function faint(colour: string): string {
  return /^#[0-9a-f]{6}$/i.test(colour) ? `${colour}33` : colour;
}

function fontOf(): string {
  return getComputedStyle(document.body).getPropertyValue("--vscode-font-family").trim() || "sans-serif";
}
