/** Converts between a typed command line and its arguments. */

/** The line cannot be split: a quote is not closed, or a backslash ends it. */
export class UnfinishedLine extends Error {}

/** Split a line into arguments like a POSIX shell, without expansions. On Windows a backslash is literal. */
export function words(line: string, platform: NodeJS.Platform = process.platform): string[] {
  const found: string[] = [];
  const escapes = platform !== "win32";
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at] ?? "";
    const next = line[at + 1];
    if (character === "\\" && quote !== "'" && (escapes ? quote === "" || /["\\$`]/.test(next ?? "") : next === '"')) {
      if (next === undefined) throw new UnfinishedLine("The line ends with a backslash");
      word = (word ?? "") + next;
      at += 1;
    } else if (quote) {
      if (character === quote) quote = "";
      else word = (word ?? "") + character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= "";
    } else if (/\s/.test(character)) {
      if (word !== null) found.push(word);
      word = null;
    } else {
      word = (word ?? "") + character;
    }
  }
  if (quote) throw new UnfinishedLine(`The quote ${quote} is not closed`);
  if (word !== null) found.push(word);
  return found;
}

/** Join arguments into a line with quotes where needed. */
export function asLine(args: readonly string[], platform: NodeJS.Platform = process.platform): string {
  const quoted = (part: string): string => {
    if (/^[\w@%+=:,./~-]+$/.test(part)) return part;
    if (platform === "win32") return `"${part.replaceAll('"', '\\"')}"`;
    return `'${part.replaceAll("'", `'\\''`)}'`;
  };
  return args.map(quoted).join(" ");
}
