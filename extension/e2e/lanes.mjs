// Runs scenarios in parallel: each lane has its own workbench and browser, and takes the next waiting job.
import * as os from "node:os";

/** A lane spends about half of its time waiting, and its scripts compute with one thread. */
const MOST_LANES = 2;

export function lanesFor(jobs, asked) {
  return Math.max(1, Math.min(asked ?? MOST_LANES, os.availableParallelism(), jobs.length));
}

/**
 * Run the jobs of `beside`, each with the workbench of its lane. Then run the jobs of `alone` in the first
 * lane, one after the other. If a lane fails, the other lanes take its remaining jobs. The function then
 * throws.
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
