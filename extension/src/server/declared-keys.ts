/** The settings that the manifest declares. */

/** The keys below `skyline.` that the manifest declares. */
export function declaredKeys(manifest: unknown): string[] {
  const { contributes } = manifest as { contributes: { configuration: { properties: Record<string, unknown> } } };
  return Object.keys(contributes.configuration.properties).map((key) => key.slice("skyline.".length));
}
