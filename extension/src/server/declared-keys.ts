/** The settings keys of the manifest. */

/** The keys that the manifest declares, without the prefix `skyline.`. */
export function declaredKeys(manifest: unknown): string[] {
  const { contributes } = manifest as { contributes: { configuration: { properties: Record<string, unknown> } } };
  return Object.keys(contributes.configuration.properties).map((key) => key.slice("skyline.".length));
}
