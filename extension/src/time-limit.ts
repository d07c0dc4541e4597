/** Time limits for promises. */

/** Thrown if no answer came in time. The message names the party that did not answer. */
export class TimedOut extends Error {
  override readonly name = "TimedOut";
}

/** True for a TimedOut error. Compares the name, because the client is a separate bundle with its own class. */
export function isTimedOut(error: unknown): boolean {
  return error instanceof Error && error.name === "TimedOut";
}

/** The value of a promise. Throws TimedOut if it takes longer than the limit. */
export async function within<T>(limitMs: number, what: string, answer: PromiseLike<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimedOut(`${what} did not answer within ${limitMs / 1000} s`)), limitMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
