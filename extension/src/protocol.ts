/** What the server and its clients say beyond the standard protocol, as generated from the server's own types. */

export * from "./protocol.generated";

/** A batch size (null: as it is) and what-ifs as `NAME` or `NAME=VALUE`. */
export interface Question {
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
}
