/** Waiting with an end: what does not answer in time has failed. */

/** There was no answer in time; the message names what was waited for. */
export class TimedOut extends Error {
  override readonly name = "TimedOut";
}

/** Whether that is why something failed. By its name: the client is a bundle of its own, with a class of its own. */
export function isTimedOut(error: unknown): boolean {
  return error instanceof Error && error.name === "TimedOut";
}

/** What a promise gives; raises TimedOut where that takes longer. */
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
