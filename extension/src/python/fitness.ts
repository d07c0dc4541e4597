/** Whether a Skyline can be run by an interpreter: its own, or else the one of this extension. */

import type { ImportStrategy } from "./command";
import type { Environment } from "./environment";

/** Why none can, as a sentence that names the interpreter and what to do; null where one can. */
export function misfitOf(environment: Environment, strategy: ImportStrategy): string | null {
  const own = environment.skyline !== null && strategy === "fromEnvironment";
  return own || environment.misfit === null ? null : `${environment.executable} (${environment.origin}) ${environment.misfit}`;
}
