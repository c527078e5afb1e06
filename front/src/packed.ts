// Numbers as a saved file holds them: all their first bytes, then all second ones, ..., as raw deflate in base64.

function bytes(base64: string): Uint8Array<ArrayBuffer> {
  const raw = atob(base64);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

/** Numbers of `width` bytes each. */
export async function inflate(base64: string, width: 1 | 4): Promise<ArrayBuffer> {
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  // Not awaited: the writer waits for the reader, and a broken stream shows at the reader as well.
  writer.write(bytes(base64)).catch(() => {});
  writer.close().catch(() => {});
  const planes = await new Response(stream.readable).arrayBuffer();
  return width === 1 ? planes : woven(new Uint8Array(planes), width);
}

/** Puts the bytes of each number side by side. */
function woven(planes: Uint8Array, width: number): ArrayBuffer {
  const out = new Uint8Array(planes.length);
  const count = planes.length / width;
  for (let byte = 0; byte < width; byte++) {
    for (let n = 0; n < count; n++) out[n * width + byte] = planes[byte * count + n]!;
  }
  return out.buffer;
}
