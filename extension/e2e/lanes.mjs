// Scenarios side by side: each lane has a workbench and a browser of its own, and takes the next job that waits.
import * as os from "node:os";

/** A lane waits for windows, runs and quiet times for about half of its time, and its scripts compute with one thread. */
const MOST_LANES = 2;

export function lanesFor(jobs, asked) {
  return Math.max(1, Math.min(asked ?? MOST_LANES, os.availableParallelism(), jobs.length));
}

/**
 * Do all jobs, each with the workbench of its lane; then those that must run by themselves, in the first lane. A lane
 * that breaks leaves its jobs to the others, and the whole fails in the end.
 */
export async function inLanes(count, beside, alone, withWorkbench) {
  const waiting = [...beside];
  const work = async (bench) => {
    for (let job = waiting.shift(); job; job = waiting.shift()) await job(bench);
  };
  await withWorkbench(async (bench) => {
    const others = Array.from({ length: count - 1 }, () => withWorkbench(work));
    const ends = await Promise.allSettled([work(bench), ...others]);
    for (const { reason } of ends.filter(({ status }) => status === "rejected")) throw reason;
    for (const job of alone) await job(bench);
  });
}
