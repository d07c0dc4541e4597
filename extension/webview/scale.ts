/**
 * Converts between positions on a bar and batch sizes, using the curve of the profile.
  *
  * Iteration time, samples per iteration and memory are interpolated linearly in the batch size between two points.
  * Throughput is samples divided by time, which is monotonic between two points.
 */

import type { CurvePoint } from "../src/protocol";

/** The values at both ends of a bar: the minimum and maximum of the curve. */
export interface Axis {
  readonly bottom: number;
  readonly top: number;
  /** True if the quantity is the same at every batch size. Positions then stand for batch sizes. */
  readonly flat: boolean;
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

/** Relative change below which a curve counts as flat. */
const FLAT = 1e-6;

export class Scale {
  private constructor(
    readonly places: readonly Place[],
    readonly axes: Readonly<Record<Quantity, Axis>>,
    readonly usual: readonly number[],
  ) {}

  /** The scale of a curve. Null if it has fewer than two points. `own` is the batch size of the script. */
  static of(curve: readonly CurvePoint[], own: number | null): Scale | null {
    const places = placesOf(curve);
    if (places.length < 2) return null;
    const axes = { throughput: axis(places, READERS.throughput), memory: axis(places, READERS.memory) };
    const ends = [places[0]?.batchSize ?? 1, places.at(-1)?.batchSize ?? 1] as const;
    return new Scale(places, axes, usualSizes(...ends, own));
  }

  get smallest(): number {
    return this.#first.batchSize;
  }

  get largest(): number {
    return this.#last.batchSize;
  }

  /** The largest batch size that is not extrapolated. Null if none or all are. */
  get trustedUpTo(): number | null {
    const inside = this.places.filter((place) => !place.extrapolated);
    return inside.length < this.places.length ? (inside.at(-1)?.batchSize ?? null) : null;
  }

  /** The curve at a batch size. Outside its range, the nearer end. */
  at(batchSize: number): Place {
    if (batchSize <= this.smallest) return this.#first;
    const right = this.places.find((place) => place.batchSize >= batchSize) ?? this.#last;
    const left = this.places.findLast((place) => place.batchSize <= batchSize) ?? this.#first;
    return left === right ? left : between(left, right, batchSize);
  }

  value(quantity: Quantity, batchSize: number): number {
    return READERS[quantity](this.at(batchSize));
  }

  /** The position of a value on a bar, from 0 to 1. On a flat curve, the position of its batch size. */
  fraction(quantity: Quantity, value: number, batchSize: number): number {
    const { bottom, top, flat } = this.axes[quantity];
    return Math.min(1, Math.max(0, ((flat ? batchSize : value) - bottom) / (top - bottom)));
  }

  /** The batch size at a position on a bar, rounded to the nearest usual size. */
  batchSizeAt(quantity: Quantity, fraction: number): number {
    const { bottom, top } = this.axes[quantity];
    const target = bottom + Math.min(1, Math.max(0, fraction)) * (top - bottom);
    const reaching = this.#reaching(quantity, target);
    return this.usual.reduce((best, size) => (Math.abs(size - reaching) < Math.abs(best - reaching) ? size : best));
  }

  /** The smallest batch size that reaches a value, or the one with the highest value. */
  #reaching(quantity: Quantity, target: number): number {
    const read = this.#reader(quantity);
    if (read(this.#first) >= target) return this.smallest;
    for (let index = 1; index < this.places.length; index += 1) {
      const [left, right] = [this.places[index - 1], this.places[index]];
      if (left && right && read(right) >= target) return nearest(left, right, target, read);
    }
    return this.places.reduce((best, place) => (read(place) > read(best) ? place : best)).batchSize;
  }

  #reader(quantity: Quantity): Reader {
    return this.axes[quantity].flat ? bySize : READERS[quantity];
  }

  get #first(): Place {
    return this.places[0] as Place;
  }

  get #last(): Place {
    return this.places.at(-1) as Place;
  }
}

type Reader = (place: Place) => number;

const READERS: Readonly<Record<Quantity, Reader>> = {
  throughput: (place) => (place.samples / place.iterationMs) * 1000,
  memory: (place) => place.memoryBytes,
};

function axis(places: readonly Place[], read: Reader): Axis {
  const values = places.map(read);
  const [bottom, top] = [Math.min(...values), Math.max(...values)];
  if (top - bottom > FLAT * top) return { bottom, top, flat: false };
  return { bottom: bySize(places[0] as Place), top: bySize(places.at(-1) as Place), flat: true };
}

function bySize(place: Place): number {
  return place.batchSize;
}

/** Usual batch sizes in a range: all up to 8, then four per doubling, plus both ends and the script's own size. */
export function usualSizes(smallest: number, largest: number, own: number | null): number[] {
  const found = new Set([smallest, largest]);
  if (own !== null && own >= smallest && own <= largest) found.add(own);
  for (let doubled = 1; doubled <= largest; doubled *= 2) {
    for (const size of doubled === 1 ? [1, 2, 3, 4, 5, 6, 7] : [4, 5, 6, 7].map((k) => k * doubled)) {
      if (size > smallest && size < largest) found.add(size);
    }
  }
  return [...found].sort((a, b) => a - b);
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

/** The integer batch size on a rising segment of the curve that comes nearest to the target. */
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
