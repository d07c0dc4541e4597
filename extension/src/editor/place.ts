/** Finds a line of the profile in the current text. */

/**
 * The index, counted from 0, of the line with the text `source` that is nearest to its old place. Without such a line,
  * the line with the old number, limited to the text. `line` is counted from 1.
 */
export function lineNow(lines: readonly string[], line: number, source: string): number {
  const wanted = source.trim();
  const last = Math.max(0, lines.length - 1);
  const expected = Math.min(Math.max(line - 1, 0), last);
  return exactLine(lines, line, wanted) ?? expected;
}

/** Like `lineNow`, but null if there is no line with that text. */
export function exactLine(lines: readonly string[], line: number, source: string): number | null {
  const wanted = source.trim();
  if (wanted === "") return null;
  for (let distance = 0; distance < lines.length; distance += 1) {
    for (const index of [line - 1 - distance, line - 1 + distance]) {
      if (lines[index]?.trim() === wanted) return index;
    }
  }
  return null;
}
