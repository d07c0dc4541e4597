/** Checks that an interpreter can run Skyline: the installed one or the bundled one. */

import type { ImportStrategy } from "./command";
import type { Environment } from "./environment";

/** The reason why the interpreter can run neither, and the next step. Null if it can run one. */
export function misfitOf(environment: Environment, strategy: ImportStrategy): string | null {
  const own = environment.skyline !== null && strategy === "fromEnvironment";
  return own || environment.misfit === null ? null : `${environment.executable} (${environment.origin}) ${environment.misfit}`;
}
