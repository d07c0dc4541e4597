/** From one text to another. */

/** The one replacement that makes one text of another, as short as can be. */
export function replacing(from: string, to: string): { start: number; end: number; replacement: string } {
  const shorter = Math.min(from.length, to.length);
  let head = 0;
  while (head < shorter && from[head] === to[head]) head += 1;
  // Never between a carriage return and its newline, where no editor has a place.
  if (from[head - 1] === "\r") head -= 1;
  let tail = 0;
  while (tail < shorter - head && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail += 1;
  if (from[from.length - tail] === "\n" && tail > 0) tail -= 1;
  return { start: head, end: from.length - tail, replacement: to.slice(head, to.length - tail) };
}
