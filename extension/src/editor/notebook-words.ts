/** What is said of a notebook, in the editor and in the view. */

/** Why it is not profiled, and how to go on. */
export function notebookWords(name: string): string {
  return `Notebooks are not profiled yet. Export ${name} as a script (jupyter nbconvert --to script ${name}), open the script and profile that.`;
}
