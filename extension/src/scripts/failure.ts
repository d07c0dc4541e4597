/** A failed run in the view: the error and the next steps. */

import type { Trouble } from "../view/messages";

const AGAIN = { title: "Profile Again", command: "skyline.profileScript" };
const LAUNCHER_SETTING = "skyline.profile.launcher";
const WITH_ARGUMENTS = { title: "Profile with Arguments…", command: "skyline.profileWithArguments" };

/** `usage` is the script's usage text, if it rejected its arguments. */
export function failureOf(error: string, usage: string | null): Trouble {
  // The server's advice names this setting if the script must be started by a launcher such as torchrun.
  if (usage === null && error.includes(LAUNCHER_SETTING)) return { message: error, fix: WITH_ARGUMENTS, more: [AGAIN] };
  if (usage === null) return { message: error, fix: AGAIN };
  // The lines after the first are the usage text and advice for a terminal.
  return { message: error.split("\n")[0] ?? error, usage, fix: WITH_ARGUMENTS, more: [AGAIN] };
}
