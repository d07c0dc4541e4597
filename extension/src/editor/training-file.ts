/** Recognises the files that need a server: those that import PyTorch or a library that trains with it. */

const LIBRARIES = ["torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "transformers", "accelerate", "timm"];
const IMPORT = new RegExp(`^[ \\t]*(?:import|from)[ \\t]+(?:[\\w.]+[ \\t]*(?:as[ \\t]+\\w+[ \\t]*)?,[ \\t]*)*(?:${LIBRARIES.join("|")})\\b`, "m");

/** True if a Python source imports PyTorch or such a library. */
export function importsTorch(source: string): boolean {
  return IMPORT.test(source);
}
