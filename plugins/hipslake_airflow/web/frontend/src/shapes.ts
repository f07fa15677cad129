// Outlines of cells on the plane of a projection: worked out once, whatever is zoomed or dragged after.
import { geoDistance, geoPath, geoRotation, type GeoProjection } from "d3-geo";
import type { Cells } from "./cells";
import { edgeParts, outline } from "./healpix";
import { aside, makeProjection, type ProjectionKind, type Rotation } from "./projections";

const NEAR = 1e-6; // degrees

const LONGEST = 20; // units of the plane that an edge may be without points between
const FINER = 16; // parts of an edge, at least, where it is longer or cut

type Fate = "whole" | "coarse" | "cut" | "hidden";
type RingOf = (at: number) => Float64Array;

// Rings of vertices; a cell that the projection cuts has several, one beyond the horizon has none.
export interface Shapes {
  xy: Float64Array; // x, y, x, y...
  ringStart: Uint32Array; // where rings begin in vertices, and the end
  cellStart: Uint32Array; // where cells begin in rings, and the end
  box: Float64Array; // of each cell: left, top, right, bottom
}

export class Plane {
  readonly projection: GeoProjection;
  private readonly rotate: (point: [number, number]) => [number, number];
  private readonly plain: GeoProjection; // of the sphere after its rotation

  constructor(readonly kind: ProjectionKind, readonly rotation: Rotation) {
    this.projection = makeProjection(kind, aside(rotation));
    this.rotate = geoRotation(aside(rotation));
    this.plain = makeProjection(kind, [0, 0, 0]);
  }

  // Where a position comes to lie; null beyond the horizon of a globe.
  place(ra: number, dec: number): [number, number] | null {
    if (this.kind.cut === "horizon") {
      const [lon, lat] = this.rotate([ra, dec]);
      if (Math.cos((lon * Math.PI) / 180) * Math.cos((lat * Math.PI) / 180) < 0) return null;
    }
    return this.projection([ra, dec]);
  }

  // The position at a point of the plane; null outside of the sky, where formulas go on all the same.
  position(x: number, y: number): [number, number] | null {
    const found = this.projection.invert?.([x, y]);
    if (!found || !Number.isFinite(found[0]) || !Number.isFinite(found[1]) || Math.abs(found[1]) > 90) return null;
    const again = this.place(found[0], found[1]);
    if (!again || Math.hypot(again[0] - x, again[1] - y) > 1e-2) return null;
    return [(found[0] + 360) % 360, found[1]];
  }

  shapesOf(cells: Cells): Shapes {
    const { order, npix } = cells.columns;
    return this.shapes(
      cells.length,
      (at) => outline(order[at], npix[at], edgeParts(order[at])),
      (at) => outline(order[at], npix[at], Math.max(FINER, edgeParts(order[at]))),
    );
  }

  shapeOf(order: number, npix: number): Shapes {
    const ringOf = (): Float64Array => outline(order, npix, Math.max(FINER, edgeParts(order)));
    return this.shapes(1, ringOf, ringOf);
  }

  private shapes(count: number, ringOf: RingOf, finer: RingOf): Shapes {
    const pen = new Pen();
    const path = geoPath(this.projection, pen);
    const cellStart = new Uint32Array(count + 1);
    for (let at = 0; at < count; at++) {
      cellStart[at] = pen.rings;
      let fate = this.draw(ringOf(at), pen, LONGEST);
      if (fate === "coarse") fate = this.draw(finer(at), pen, Infinity);
      if (fate === "cut") path({ type: "Polygon", coordinates: [closed(finer(at))] });
    }
    cellStart[count] = pen.rings;
    return { ...pen.taken(), cellStart, box: boxes(pen, cellStart) };
  }

  // Draws a ring that the projection leaves whole, unless an edge of it comes out too long to be straight.
  private draw(ring: Float64Array, pen: Pen, longest: number): Fate {
    const turned = new Float64Array(ring.length);
    let [west, east] = [360, -360];
    for (let at = 0; at < ring.length; at += 2) {
      const [lon, lat] = this.rotate([ring[at], ring[at + 1]]);
      turned[at] = lon;
      turned[at + 1] = lat;
      west = Math.min(west, lon);
      east = Math.max(east, lon);
    }
    const fate = this.fate(turned, west, east);
    if (fate !== "whole") return fate;
    const placed = new Float64Array(turned.length);
    for (let at = 0; at < turned.length; at += 2) {
      [placed[at], placed[at + 1]] = this.plain([turned[at], turned[at + 1]]) as [number, number];
      if (at && Math.hypot(placed[at] - placed[at - 2], placed[at + 1] - placed[at - 1]) > longest) return "coarse";
    }
    pen.begin();
    for (let at = 0; at < placed.length; at += 2) pen.add(placed[at], placed[at + 1]);
    return fate;
  }

  private fate(turned: Float64Array, west: number, east: number): Fate {
    if (this.kind.cut === "meridian") {
      const whole = east - west < 180 - NEAR && east < 180 - NEAR && west > NEAR - 180;
      return whole ? "whole" : "cut";
    }
    // Distances from the centre; inside of the ring they differ from these by less than its size.
    let lowest = 1;
    let highest = -1;
    for (let at = 0; at < turned.length; at += 2) {
      const cosine = Math.cos((turned[at] * Math.PI) / 180) * Math.cos((turned[at + 1] * Math.PI) / 180);
      lowest = Math.min(lowest, cosine);
      highest = Math.max(highest, cosine);
    }
    const [nearest, farthest] = [Math.acos(Math.min(1, highest)), Math.acos(Math.max(-1, lowest))];
    const spread = sizeOf(turned);
    if (this.kind.cut === "antipode") return Math.PI - farthest > spread ? "whole" : "cut";
    if (farthest < Math.PI / 2 - 1e-6) return "whole";
    return nearest - spread > Math.PI / 2 ? "hidden" : "cut";
  }
}

// The farthest that a vertex is from the first one, and half of that again: nothing in the ring is farther from any.
function sizeOf(ring: Float64Array): number {
  let farthest = 0;
  for (let at = 2; at < ring.length; at += 2) {
    farthest = Math.max(farthest, geoDistance([ring[0], ring[1]], [ring[at], ring[at + 1]]));
  }
  return 1.5 * farthest;
}

function closed(ring: Float64Array): [number, number][] {
  const points: [number, number][] = [];
  for (let at = 0; at < ring.length; at += 2) points.push([ring[at], ring[at + 1]]);
  points.push(points[0]);
  return points;
}

function boxes(pen: Pen, cellStart: Uint32Array): Float64Array {
  const { xy, ringStart } = pen.taken();
  const box = new Float64Array(4 * (cellStart.length - 1));
  for (let cell = 0; cell + 1 < cellStart.length; cell++) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let at = ringStart[cellStart[cell]]; at < ringStart[cellStart[cell + 1]]; at++) {
      left = Math.min(left, xy[2 * at]);
      right = Math.max(right, xy[2 * at]);
      top = Math.min(top, xy[2 * at + 1]);
      bottom = Math.max(bottom, xy[2 * at + 1]);
    }
    box.set([left, top, right, bottom], 4 * cell);
  }
  return box;
}

// Collects rings; d3-geo draws into it as into a canvas.
class Pen {
  rings = 0;
  private xy = new Float64Array(1 << 12);
  private used = 0;
  private readonly starts: number[] = [];

  begin(): void {
    this.starts.push(this.used / 2);
    this.rings++;
  }

  add(x: number, y: number): void {
    if (this.used + 2 > this.xy.length) {
      const larger = new Float64Array(2 * this.xy.length);
      larger.set(this.xy);
      this.xy = larger;
    }
    this.xy[this.used++] = x;
    this.xy[this.used++] = y;
  }

  moveTo(x: number, y: number): void {
    this.begin();
    this.add(x, y);
  }

  lineTo(x: number, y: number): void {
    this.add(x, y);
  }

  closePath(): void {}

  beginPath(): void {}

  arc(): void {}

  taken(): { xy: Float64Array; ringStart: Uint32Array } {
    return {
      xy: this.xy.subarray(0, this.used),
      ringStart: Uint32Array.from([...this.starts, this.used / 2]),
    };
  }
}
