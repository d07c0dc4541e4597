/** Adapts the HTML report to an editor tab: its own style, the editor's light or dark theme, no scripts. */

const CHARSET = '<meta charset="utf-8">';
const STYLE = "<style>";
const FOLLOWS_SYSTEM = "@media (prefers-color-scheme: dark)";
const BOTH_SCHEMES = "color-scheme: light dark;";

/** Parts of the report that are replaced here. Each occurs once. */
export const REPLACED: readonly string[] = [CHARSET, STYLE, FOLLOWS_SYSTEM, BOTH_SCHEMES];

/**
 * The page under a policy that allows only its own style sheet, identified by a random nonce, and the style attributes
  * of its elements. It runs no script and loads nothing.
 */
export function reportPage(report: string, dark: boolean, nonce: string): string {
  const policy = `default-src 'none'; style-src-elem 'nonce-${nonce}'; style-src-attr 'unsafe-inline'`;
  return report
    .replace(CHARSET, `${CHARSET}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`)
    .replace(STYLE, `<style nonce="${nonce}">`)
    .replace(FOLLOWS_SYSTEM, dark ? "@media all" : "@media not all")
    .replace(BOTH_SCHEMES, `color-scheme: ${dark ? "dark" : "light"};`);
}
