/** Which files are worth a server: those that import PyTorch, by name or through a library that trains with it. */

const LIBRARIES = ["torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "transformers", "accelerate", "timm"];
const IMPORT = new RegExp(`^[ \\t]*(?:import|from)[ \\t]+(?:[\\w.]+[ \\t]*(?:as[ \\t]+\\w+[ \\t]*)?,[ \\t]*)*(?:${LIBRARIES.join("|")})\\b`, "m");

/** Whether a Python source imports something that trains. */
export function importsTorch(source: string): boolean {
  return IMPORT.test(source);
}
