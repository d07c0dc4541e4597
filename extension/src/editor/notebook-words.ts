/** The message about notebooks in the editor and in the view. */

/** The reason why a notebook is not profiled, and the next step. */
export function notebookWords(name: string): string {
  return `Skyline does not profile notebooks in the editor yet. In a terminal: skyline profile ${name}. In a cell: %load_ext skyline, then %%skyline.`;
}
