/** Computes the lines that an edit has touched. */

interface Change {
  readonly range: { readonly start: { readonly line: number }; readonly end: { readonly line: number } };
  readonly text: string;
}

/** The lines touched before, moved by these changes, and the lines that these changes touch. */
export function touchedLines(before: ReadonlySet<number>, changes: readonly Change[]): Set<number> {
  let lines = new Set(before);
  // From the bottom up, because each change refers to the text before all changes.
  for (const { range, text } of [...changes].sort((a, b) => b.range.start.line - a.range.start.line)) {
    const { line: start } = range.start;
    const { line: end } = range.end;
    const added = text.split("\n").length - 1;
    const moved = new Set<number>();
    for (const line of lines) {
      if (line < start) moved.add(line);
      else if (line > end) moved.add(line + added - (end - start));
    }
    // A whole line inserted before another one ends at the start of that line but does not touch it.
    const last = text.endsWith("\n") && added > 0 ? start + added - 1 : start + added;
    for (let line = start; line <= last; line += 1) moved.add(line);
    lines = moved;
  }
  return lines;
}
