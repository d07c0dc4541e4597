/** A run that failed, as the view shows it: what went wrong, and what the person can do. */

import type { Trouble } from "../view/messages";

const AGAIN = { title: "Profile Again", command: "skyline.profileScript" };
const WITH_ARGUMENTS = { title: "Profile with Arguments…", command: "skyline.profileWithArguments" };

/** `usage` is what the script printed about its arguments, where it did not accept them. */
export function failureOf(error: string, usage: string | null): Trouble {
  if (usage === null) return { message: error, fix: AGAIN };
  // The lines after the first one are the usage text and what to do in a terminal.
  return { message: error.split("\n")[0] ?? error, usage, fix: WITH_ARGUMENTS, more: [AGAIN] };
}
