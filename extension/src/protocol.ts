/** Messages between server and clients beyond the standard protocol, generated from the server's types. */

export * from "./protocol.generated";

/** A batch size (null: unchanged) and what-ifs as `NAME` or `NAME=VALUE`. */
export interface Question {
  readonly batchSize: number | null;
  readonly whatifs: readonly string[];
}
