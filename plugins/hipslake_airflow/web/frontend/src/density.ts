// The density of rows as an image of the sky: tiles of counts, coarser counts of them, and their raster on the screen.
import { pixelArea, pixelAt, pixelOf, placeOf, placeVector, vectorOf, type Place } from "./healpix";
import type { Plane } from "./shapes";
import type { View } from "./graticule";

export type Counts = Uint32Array | Float64Array;

export interface CountSource {
  below: number; // orders that the counts of a tile are asked for below it; there may come coarser ones
  whole: () => Promise<Counts>; // counts of the whole sky along the curve, so many orders below 0
  tile: (order: number, npix: number) => Promise<Counts>; // counts of a tile along the curve
}

export interface Found {
  order: number; // of the pixel counted
  rows: number;
  density: number; // rows per square degree
}

export interface Raster {
  width: number;
  height: number;
  values: Float32Array; // rows per square degree; 0 where there are none, -1 outside of the sky
  least: number; // the range that colours are for: a few values lie outside
  most: number;
  rows: number; // counted in the pixels that are seen
}

interface Tile {
  order: number;
  levels: Counts[]; // counts of 1, 4, 16... parts, row by row in the face's own directions
}

interface Piece {
  counts: Counts;
  shift: number; // from a place at the raster's order to one of the counts
  left: number;
  top: number;
  side: number;
  perArea: number;
}

const FINEST = 24;
const MOST_TILES = 400;
const MOST_ASKED = 64;
const PIXELS_WIDE = 1.5; // pixels of the screen that a count is wide, at least
const ENOUGH = 4; // rows that a filled pixel holds in the mean, unless it is coarsened this much
const COARSENED = 3;
const BLOCK = 16;
const PROBED = 8; // pixels of the screen for each of the small image
const NONE: Piece = { counts: new Uint32Array(1), shift: 31, left: 0, top: 0, side: 1, perArea: 0 };

export class Density {
  onTile: () => void = () => {};
  private readonly tiles = new Map<string, Tile>();
  private readonly asked = new Set<string>();
  private readonly depths = new Map<number, number>(); // from the order of tiles to how deep the shallowest is

  constructor(private readonly source: CountSource) {}

  // The first tiles: all of the sky.
  async load(): Promise<void> {
    const counts = await this.source.whole();
    const each = counts.length / 12;
    for (let npix = 0; npix < 12; npix++) this.keep(0, npix, counts.subarray(npix * each, (npix + 1) * each));
  }

  // The finest count that is known at a position, of pixels of an order at most.
  at(ra: number, dec: number, order: number): Found | null {
    const [x, y, z] = vectorOf(ra, dec);
    for (let from = Math.min(order, FINEST); from >= 0; from--) {
      const tile = this.tiles.get(`${from}/${pixelAt(from, ra, dec)}`);
      if (!tile) continue;
      const level = Math.min(order - from, tile.levels.length - 1);
      const place: Place = { face: 0, x: 0, y: 0 };
      placeVector(from + level, x, y, z, place);
      const side = 2 ** level;
      const rows = tile.levels[level][(place.y % side) * side + (place.x % side)];
      return { order: from + level, rows, density: rows / pixelArea(from + level) };
    }
    return null;
  }

  // The order whose pixels are some pixels of the screen wide, at so many pixels per radian.
  orderFor(pixelsPerRadian: number): number {
    const order = Math.floor(Math.log2((Math.sqrt(Math.PI / 3) * pixelsPerRadian) / PIXELS_WIDE));
    return Math.max(0, Math.min(order, FINEST));
  }

  // The image on the screen; tiles that it lacks are asked for, and `onTile` tells of each that came.
  raster(plane: Plane, view: View, pixelsPerRadian: number): Raster {
    const order = this.coarsened(this.orderFor(pixelsPerRadian), plane, view, pixelsPerRadian);
    const missing = new Set<string>();
    const { values, rows } = this.rasterAt(order, plane, view, pixelsPerRadian, missing);
    for (const key of [...missing].slice(0, MOST_ASKED)) void this.fetch(key);
    const [least, most] = range(values);
    return { width: view.width, height: view.height, values, least, most, rows };
  }

  // A lower order where filled pixels hold few rows: found on an image that is much smaller.
  private coarsened(wanted: number, plane: Plane, view: View, pixelsPerRadian: number): number {
    const small: View = {
      width: view.width / PROBED,
      height: view.height / PROBED,
      toScreen: (x, y) => view.toScreen(x, y).map((part) => part / PROBED) as [number, number],
      toPlane: (x, y) => view.toPlane(PROBED * x, PROBED * y),
    };
    let order = wanted;
    while (order > 0 && order > wanted - COARSENED) {
      const { filled, counted } = this.rasterAt(order, plane, small, pixelsPerRadian / PROBED, new Set());
      if (!filled || counted / filled >= ENOUGH) break;
      order--;
    }
    return order;
  }

  private async fetch(key: string): Promise<void> {
    if (this.asked.has(key)) return;
    this.asked.add(key);
    const [order, npix] = key.split("/").map(Number);
    try {
      this.keep(order, npix, await this.source.tile(order, npix));
      this.onTile();
    } catch {
      this.asked.delete(key); // coarser counts stand in for it
    }
  }

  private keep(order: number, npix: number, counts: Counts): void {
    const levels = levelsOf(counts);
    this.asked.add(`${order}/${npix}`);
    this.tiles.set(`${order}/${npix}`, { order, levels });
    this.depths.set(order, Math.min(levels.length - 1, this.depths.get(order) ?? Infinity));
    for (const [old, tile] of this.tiles) {
      if (this.tiles.size <= MOST_TILES) return;
      if (!tile.order) continue;
      this.tiles.delete(old);
      this.asked.delete(old);
    }
  }

  // The order of the tiles that hold counts of an order.
  private tileOrder(order: number): number {
    for (let from = Math.max(0, order - this.source.below); from < order; from++) {
      if (order - from <= (this.depths.get(from) ?? this.source.below)) return from;
    }
    return order;
  }

  // What is known of a tile's part of the sky: its own counts, or those of a tile above it.
  private piece(order: number, tileOrder: number, place: Place, missing: Set<string>): Piece {
    const own = `${tileOrder}/${pixelOf(tileOrder, place)}`;
    for (let from = tileOrder; from >= 0; from--) {
      const up = tileOrder - from;
      const above = { face: place.face, x: place.x >> up, y: place.y >> up };
      const tile = this.tiles.get(`${from}/${pixelOf(from, above)}`);
      if (!tile) continue;
      if (up && this.isEmpty(tile, up, place)) return NONE;
      if (up && !this.asked.has(own)) missing.add(own);
      const level = Math.min(order - from, tile.levels.length - 1);
      const side = 2 ** level;
      return {
        counts: tile.levels[level], side, shift: order - from - level, left: above.x * side, top: above.y * side,
        perArea: 1 / pixelArea(from + level),
      };
    }
    return NONE;
  }

  // Whether a tile knows that there is nothing in one that lies some orders below it.
  private isEmpty(tile: Tile, below: number, place: Place): boolean {
    const level = Math.min(below, tile.levels.length - 1);
    const side = 2 ** level;
    const [x, y] = [place.x >> (below - level), place.y >> (below - level)];
    return tile.levels[level][(y % side) * side + (x % side)] === 0;
  }

  private rasterAt(
    order: number, plane: Plane, view: View, pixelsPerRadian: number, missing: Set<string>,
  ): { values: Float32Array; filled: number; counted: number; rows: number } {
    const tileOrder = this.tileOrder(order);
    const down = order - tileOrder;
    const pieces = new Map<number, Piece>();
    const place: Place = { face: -1, x: 0, y: 0 };
    let [lastFace, lastX, lastY, last] = [-1, -1, -1, NONE];
    const sample = (x: number, y: number, z: number): number => {
      placeVector(order, x, y, z, place);
      const [tileX, tileY] = [place.x >> down, place.y >> down];
      if (place.face !== lastFace || tileX !== lastX || tileY !== lastY) {
        [lastFace, lastX, lastY] = [place.face, tileX, tileY];
        const side = 2 ** tileOrder;
        const key = (place.face * side + tileY) * side + tileX;
        let piece = pieces.get(key);
        if (!piece) pieces.set(key, (piece = this.piece(order, tileOrder, { face: place.face, x: tileX, y: tileY }, missing)));
        last = piece;
      }
      if (last === NONE) return 0;
      return last.counts[((place.y >> last.shift) - last.top) * last.side + ((place.x >> last.shift) - last.left)] * last.perArea;
    };
    const values = fill(plane, view, pixelsPerRadian, sample);
    return { values, ...totals(values, pixelArea(order), pixelsPerRadian) };
  }
}

// Rows that filled pixels of an order hold in the mean, and rows in sight, from densities on the screen.
function totals(values: Float32Array, area: number, pixelsPerRadian: number): { filled: number; counted: number; rows: number } {
  let [filled, counted] = [0, 0];
  for (const value of values) {
    if (value > 0) {
      filled++;
      counted += value;
    }
  }
  const ofPixel = (180 / Math.PI / pixelsPerRadian) ** 2; // square degrees
  return { filled, counted: counted * area, rows: counted * ofPixel };
}

function range(values: Float32Array): [number, number] {
  const seen: number[] = [];
  const step = Math.max(1, Math.floor(values.length / 40_000));
  for (let at = 0; at < values.length; at += step) if (values[at] > 0) seen.push(values[at]);
  if (!seen.length) for (const value of values) if (value > 0) seen.push(value);
  if (!seen.length) return [1, 1];
  seen.sort((one, other) => one - other);
  return [seen[Math.floor(0.005 * (seen.length - 1))], seen[Math.ceil(0.995 * (seen.length - 1))]];
}

// Counts of 1, 4, 16... parts of a tile, each row by row, from the finest ones along the curve.
export function levelsOf(along: Counts): Counts[] {
  const depth = Math.round(Math.log2(along.length) / 2);
  const finest = along instanceof Uint32Array ? new Uint32Array(along.length) : new Float64Array(along.length);
  const side = 2 ** depth;
  for (let at = 0; at < along.length; at++) {
    const { x, y } = placeOf(depth, at);
    finest[y * side + x] = along[at];
  }
  const levels: Counts[] = [finest];
  for (let level = depth - 1; level >= 0; level--) {
    const [above, half] = [levels[0], 2 ** level];
    const sums = new Float64Array(half * half);
    for (let y = 0; y < half; y++) {
      for (let x = 0; x < half; x++) {
        const first = 4 * y * half + 2 * x;
        sums[y * half + x] = above[first] + above[first + 1] + above[first + 2 * half] + above[first + 2 * half + 1];
      }
    }
    levels.unshift(sums);
  }
  return levels;
}

// Samples the sky at every pixel of the screen. Directions are worked out at the corners of blocks, and between them
// where that is as good: projections bend little within a few pixels.
function fill(
  plane: Plane, view: View, pixelsPerRadian: number, sample: (x: number, y: number, z: number) => number,
): Float32Array {
  const [width, height] = [Math.ceil(view.width), Math.ceil(view.height)];
  const values = new Float32Array(width * height).fill(-1);
  const columns = Math.ceil(width / BLOCK) + 1;
  const near = 0.1 / pixelsPerRadian;
  const direction = (x: number, y: number): Direction => {
    const found = plane.position(...view.toPlane(x + 0.5, y + 0.5));
    return found && vectorOf(found[0], found[1]);
  };
  const block = (x: number, y: number, size: number, a: Direction, b: Direction, c: Direction, d: Direction): void => {
    if (x >= width || y >= height) return;
    if (size === 1) {
      if (a) values[y * width + x] = sample(a[0], a[1], a[2]);
      return;
    }
    const half = size / 2;
    const middle = direction(x + half, y + half);
    if (!a && !b && !c && !d && !middle) return;
    if (a && b && c && d && middle) {
      const [east, north, up] = [a[0] + b[0] + c[0] + d[0], a[1] + b[1] + c[1] + d[1], a[2] + b[2] + c[2] + d[2]];
      const long = Math.hypot(east, north, up);
      if (Math.hypot(east / long - middle[0], north / long - middle[1], up / long - middle[2]) < near) {
        between(x, y, size, a, b, c, d);
        return;
      }
    }
    const [top, left] = [direction(x + half, y), direction(x, y + half)];
    const [right, bottom] = [direction(x + size, y + half), direction(x + half, y + size)];
    block(x, y, half, a, top, left, middle);
    block(x + half, y, half, top, b, middle, right);
    block(x, y + half, half, left, middle, c, bottom);
    block(x + half, y + half, half, middle, right, bottom, d);
  };
  const between = (x: number, y: number, size: number, a: Vector, b: Vector, c: Vector, d: Vector): void => {
    const rows = Math.min(size, height - y);
    const cells = Math.min(size, width - x);
    for (let row = 0; row < rows; row++) {
      const v = row / size;
      const [fromX, fromY, fromZ] = [a[0] + v * (c[0] - a[0]), a[1] + v * (c[1] - a[1]), a[2] + v * (c[2] - a[2])];
      const stepX = (b[0] + v * (d[0] - b[0]) - fromX) / size;
      const stepY = (b[1] + v * (d[1] - b[1]) - fromY) / size;
      const stepZ = (b[2] + v * (d[2] - b[2]) - fromZ) / size;
      let to = (y + row) * width + x;
      for (let cell = 0; cell < cells; cell++) {
        const [east, north, up] = [fromX + cell * stepX, fromY + cell * stepY, fromZ + cell * stepZ];
        const long = Math.sqrt(east * east + north * north + up * up);
        values[to++] = sample(east / long, north / long, up / long);
      }
    }
  };
  const nodes = (y: number): Direction[] => Array.from({ length: columns }, (_, at) => direction(at * BLOCK, y));
  let upper = nodes(0);
  for (let y = 0; y < height; y += BLOCK) {
    const lower = nodes(y + BLOCK);
    for (let at = 0; at + 1 < columns; at++) block(at * BLOCK, y, BLOCK, upper[at], upper[at + 1], lower[at], lower[at + 1]);
    upper = lower;
  }
  return values;
}

type Vector = [number, number, number];
type Direction = Vector | null;
