/** Where a line of the profile is in the text as it reads now. */

/**
 * The index, counted from 0, of the line that reads as `source` did and is nearest to where it was; where none does,
 * the line with the old number, kept within the text. `line` is counted from 1.
 */
export function lineNow(lines: readonly string[], line: number, source: string): number {
  const wanted = source.trim();
  const last = Math.max(0, lines.length - 1);
  const expected = Math.min(Math.max(line - 1, 0), last);
  return exactLine(lines, line, wanted) ?? expected;
}

/** The same, but null where no line reads as it did. */
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
