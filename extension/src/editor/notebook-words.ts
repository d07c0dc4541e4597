/** The message about notebooks in the editor and in the view. */

/** The reason why a notebook is not profiled, and the next step. */
export function notebookWords(name: string): string {
  return `Skyline cannot profile notebooks yet. Export ${name} as a script (jupyter nbconvert --to script ${name}), then open and profile the script.`;
}
