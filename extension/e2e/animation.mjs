// Joins PNG files of the same size into an animated PNG: one header, then the renumbered data of the frames.
import { crc32 } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

/**
 * The frames (PNG files of one size, as buffers) as an endless animation. Each frame is shown for `delayMs`.
 */
export function animated(frames, delayMs) {
  const first = chunks(frames[0]);
  const header = first.find(({ type }) => type === "IHDR").data;
  const out = [SIGNATURE, chunk("IHDR", header), chunk("acTL", uint32(frames.length, 0))];
  let sequence = 0;
  frames.forEach((frame, index) => {
    const control = Buffer.alloc(26);
    control.writeUInt32BE(sequence++, 0);
    header.copy(control, 4, 0, 8);
    control.writeUInt16BE(delayMs, 20);
    control.writeUInt16BE(1000, 22);
    out.push(chunk("fcTL", control));
    for (const { type, data } of chunks(frame)) {
      if (type !== "IDAT") continue;
      out.push(index === 0 ? chunk("IDAT", data) : chunk("fdAT", Buffer.concat([uint32(sequence++), data])));
    }
  });
  out.push(chunk("IEND", Buffer.alloc(0)));
  return Buffer.concat(out);
}

function chunks(png) {
  const found = [];
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    found.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return found;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  return Buffer.concat([uint32(data.length), body, uint32(crc32(body))]);
}

function uint32(...values) {
  const buffer = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => buffer.writeUInt32BE(value >>> 0, 4 * index));
  return buffer;
}
