// The small maps of all heads: kept as pixels in one canvas, drawn from there at whatever size the overview has.

import { ramp } from "./colour";
import type { OverviewMeta, Scene } from "./protocol";

const SHADES = 256;
/** Larger than so many times its cells, a map is drawn cell by cell. */
const CRISP = 2.5;

export class Thumbs {
  private readonly side: number;
  private readonly across: number;
  private readonly count: number;
  private readonly first: number[];
  private codes: Uint8Array;
  private exact: Uint8Array;
  private known: Uint8Array;
  private readonly atlas = document.createElement("canvas");
  private dark: boolean | null = null;
  private shades = new Uint32Array(SHADES);

  constructor(scene: Scene) {
    this.side = scene.side;
    this.first = [];
    let count = 0;
    for (const { heads } of scene.layers) {
      this.first.push(count);
      count += heads;
    }
    this.count = count;
    this.across = Math.max(1, Math.ceil(Math.sqrt(count)));
    this.codes = new Uint8Array(count * this.side ** 2);
    this.exact = new Uint8Array(count);
    this.known = new Uint8Array(count);
    this.atlas.width = this.across * this.side;
    this.atlas.height = Math.ceil(count / this.across) * this.side;
  }

  /** Another run or another row of the batch: nothing is known of it. */
  forget(): void {
    this.known.fill(0);
    this.exact.fill(0);
  }

  put(meta: OverviewMeta, data: ArrayBuffer): void {
    const size = this.side ** 2;
    const all = new Uint8Array(data);
    meta.heads.forEach(({ layer, head, exact }, at) => {
      const n = (this.first[layer] ?? 0) + head;
      this.codes.set(all.subarray(at * size, (at + 1) * size), n * size);
      this.known[n] = 1;
      this.exact[n] = exact ? 1 : 0;
      if (this.dark !== null) this.colour(n);
    });
  }

  /** How many are known from some queries only. */
  get sampled(): number {
    let count = 0;
    for (let n = 0; n < this.count; n++) if (this.known[n] && !this.exact[n]) count++;
    return count;
  }

  isKnown(n: number): boolean {
    return this.known[n] === 1;
  }

  isExact(n: number): boolean {
    return this.exact[n] === 1;
  }

  /** The colours of the page; all maps are coloured anew where they change. */
  theme(dark: boolean): void {
    if (this.dark === dark) return;
    this.dark = dark;
    const of = ramp(dark, false);
    const bytes = new Uint8Array(this.shades.buffer);
    // A code is the root of a share already, which is the scale that lets faint attention be seen.
    for (let code = 0; code < SHADES; code++) bytes.set([...of(code / (SHADES - 1)), 255], 4 * code);
    for (let n = 0; n < this.count; n++) if (this.known[n]) this.colour(n);
  }

  private colour(n: number): void {
    const pen = this.atlas.getContext("2d");
    if (!pen) return;
    const image = pen.createImageData(this.side, this.side);
    const pixels = new Uint32Array(image.data.buffer);
    const base = n * this.side ** 2;
    for (let i = 0; i < pixels.length; i++) pixels[i] = this.shades[this.codes[base + i] as number] as number;
    pen.putImageData(image, (n % this.across) * this.side, Math.floor(n / this.across) * this.side);
  }

  draw(pen: CanvasRenderingContext2D, n: number, x: number, y: number, size: number): void {
    const from = [(n % this.across) * this.side, Math.floor(n / this.across) * this.side] as const;
    // Cells that can be told apart have edges.
    pen.imageSmoothingEnabled = size < CRISP * this.side;
    pen.drawImage(this.atlas, ...from, this.side, this.side, x, y, size, size);
  }
}
