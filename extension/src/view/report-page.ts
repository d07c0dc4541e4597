/** The report, which is made for a browser, as a page of the editor: its own style, the editor's light or dark, no scripts. */

const CHARSET = '<meta charset="utf-8">';
const STYLE = "<style>";
const FOLLOWS_SYSTEM = "@media (prefers-color-scheme: dark)";
const BOTH_SCHEMES = "color-scheme: light dark;";

/** Parts of the report that are replaced here; each is in it once. */
export const REPLACED: readonly string[] = [CHARSET, STYLE, FOLLOWS_SYSTEM, BOTH_SCHEMES];

/**
 * The page under a policy that lets in nothing but its one style sheet, named by a nonce that nobody can guess, and the
 * widths and shades that its elements have as attributes. It has no script that runs, and loads nothing.
 */
export function reportPage(report: string, dark: boolean, nonce: string): string {
  const policy = `default-src 'none'; style-src-elem 'nonce-${nonce}'; style-src-attr 'unsafe-inline'`;
  return report
    .replace(CHARSET, `${CHARSET}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`)
    .replace(STYLE, `<style nonce="${nonce}">`)
    .replace(FOLLOWS_SYSTEM, dark ? "@media all" : "@media not all")
    .replace(BOTH_SCHEMES, `color-scheme: ${dark ? "dark" : "light"};`);
}
