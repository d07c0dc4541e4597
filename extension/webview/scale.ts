/**
 * Where a place on a bar lies in batch sizes, and back: the curve of the profile read both ways.
 *
 * Between two points of the curve the iteration time, the samples of an iteration and the memory are taken as straight
 * lines in the batch size. Throughput is then samples over time, which within one piece rises or falls all the way.
 */

import type { CurvePoint } from "../src/protocol";

/** What the two ends of a bar stand for. */
export interface Axis {
  readonly bottom: number;
  readonly top: number;
}

/** Time (ms), samples and memory (bytes) of one iteration at one batch size. */
export interface Place {
  readonly batchSize: number;
  readonly iterationMs: number;
  readonly samples: number;
  readonly memoryBytes: number;
  readonly extrapolated: boolean;
}

export type Quantity = "throughput" | "memory";

/** A capacity more than this many times the largest point's memory would squeeze the bar into a corner. */
const CAPACITY_IS_FAR = 3;
/** A curve that moves less than this share of a bar from zero gets a bar that begins at its lowest point. */
const FLAT = 0.2;

export class Scale {
  private constructor(
    readonly places: readonly Place[],
    readonly axes: Readonly<Record<Quantity, Axis>>,
  ) {}

  /** The scale of a curve; null where it has fewer than two points. `also` widens the axes to hold another curve. */
  static of(curve: readonly CurvePoint[], capacityBytes: number | null, also: readonly CurvePoint[] = []): Scale | null {
    const places = placesOf(curve);
    if (places.length < 2) return null;
    const all = [...places, ...placesOf(also)];
    const largest = Math.max(...all.map((place) => place.memoryBytes));
    const near = capacityBytes !== null && largest <= capacityBytes && capacityBytes <= largest * CAPACITY_IS_FAR;
    return new Scale(places, {
      throughput: axis(all.map(throughput), null),
      memory: axis(all.map((place) => place.memoryBytes), near ? capacityBytes : null),
    });
  }

  get smallest(): number {
    return this.#first.batchSize;
  }

  get largest(): number {
    return this.#last.batchSize;
  }

  /** The largest batch size before the curve is extrapolated; null where it never is, or always. */
  get trustedUpTo(): number | null {
    const inside = this.places.filter((place) => !place.extrapolated);
    return inside.length < this.places.length ? (inside.at(-1)?.batchSize ?? null) : null;
  }

  /** The curve at a batch size; outside its range, its nearer end. */
  at(batchSize: number): Place {
    if (batchSize <= this.smallest) return this.#first;
    const right = this.places.find((place) => place.batchSize >= batchSize) ?? this.#last;
    const left = this.places.findLast((place) => place.batchSize <= batchSize) ?? this.#first;
    return left === right ? left : between(left, right, batchSize);
  }

  value(quantity: Quantity, batchSize: number): number {
    return reader(quantity)(this.at(batchSize));
  }

  /** Where on a bar a value lies, from 0 to 1. */
  fraction(quantity: Quantity, value: number): number {
    const { bottom, top } = this.axes[quantity];
    if (top - bottom <= top * 1e-6) return 1;
    return Math.min(1, Math.max(0, (value - bottom) / (top - bottom)));
  }

  /** The batch size at a place on a bar: the smallest that reaches it, or the one that comes nearest. */
  batchSizeAt(quantity: Quantity, fraction: number): number {
    const { bottom, top } = this.axes[quantity];
    const target = bottom + Math.min(1, Math.max(0, fraction)) * (top - bottom);
    const read = reader(quantity);
    if (read(this.#first) >= target) return this.smallest;
    for (let index = 1; index < this.places.length; index += 1) {
      const [left, right] = [this.places[index - 1], this.places[index]];
      if (left && right && read(right) >= target) return nearest(left, right, target, read);
    }
    return this.places.reduce((best, place) => (read(place) > read(best) ? place : best)).batchSize;
  }

  get #first(): Place {
    return this.places[0] as Place;
  }

  get #last(): Place {
    return this.places.at(-1) as Place;
  }
}

function reader(quantity: Quantity): (place: Place) => number {
  return quantity === "throughput" ? throughput : (place) => place.memoryBytes;
}

function throughput(place: Place): number {
  return (place.samples / place.iterationMs) * 1000;
}

function axis(values: readonly number[], capacity: number | null): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const top = capacity ?? high;
  return high - low < FLAT * top ? { bottom: low, top: high } : { bottom: 0, top };
}

function placesOf(curve: readonly CurvePoint[]): Place[] {
  return [...curve]
    .filter((point) => point.iteration_ms.value > 0)
    .sort((a, b) => a.batch_size - b.batch_size)
    .map((point) => ({
      batchSize: point.batch_size,
      iterationMs: point.iteration_ms.value,
      samples: (point.throughput.value * point.iteration_ms.value) / 1000,
      memoryBytes: point.peak_bytes.value,
      extrapolated: point.extrapolated,
    }));
}

function between(left: Place, right: Place, batchSize: number): Place {
  const share = (batchSize - left.batchSize) / (right.batchSize - left.batchSize);
  const mix = (a: number, b: number): number => a + share * (b - a);
  return {
    batchSize,
    iterationMs: mix(left.iterationMs, right.iterationMs),
    samples: mix(left.samples, right.samples),
    memoryBytes: mix(left.memoryBytes, right.memoryBytes),
    extrapolated: right.extrapolated,
  };
}

/** The whole batch size in one rising piece of the curve that comes nearest to the target. */
function nearest(left: Place, right: Place, target: number, read: (place: Place) => number): number {
  let [below, above] = [left.batchSize, right.batchSize];
  const at = (size: number): number => read(between(left, right, size));
  while (above - below > 1) {
    const middle = Math.floor((below + above) / 2);
    if (at(middle) < target) below = middle;
    else above = middle;
  }
  return target - at(below) < at(above) - target ? below : above;
}
