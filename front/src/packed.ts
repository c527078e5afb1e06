// Numbers as a saved file holds them: raw deflate in base64.

function bytes(base64: string): Uint8Array<ArrayBuffer> {
  const raw = atob(base64);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

export async function inflate(base64: string): Promise<ArrayBuffer> {
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  // Not awaited: the writer waits for the reader, and a broken stream shows at the reader as well.
  writer.write(bytes(base64)).catch(() => {});
  writer.close().catch(() => {});
  return new Response(stream.readable).arrayBuffer();
}
