// HEALPix geometry in the NESTED scheme, for orders 0 to 20. Angles in degrees: right ascension and declination.
import { bit_combine, bit_decombine, fxy2tu, tu2fxy, tu2za, za2tu } from "@hscmap/healpix";

export const FINEST = 20;
const HALF = 1 << 10; // of an order-20 coordinate: the library's bit operations take 15 bits
const DEGREE = Math.PI / 180;

export interface Place {
  face: number;
  x: number;
  y: number;
}

export function placeOf(order: number, npix: number): Place {
  const side = 2 ** order;
  const face = Math.floor(npix / (side * side));
  const inside = npix - face * side * side;
  const low = bit_decombine(inside % (HALF * HALF));
  const high = bit_decombine(Math.floor(inside / (HALF * HALF)));
  return { face, x: low.x + HALF * high.x, y: low.y + HALF * high.y };
}

// The pixel of an order that holds a position.
export function pixelAt(order: number, ra: number, dec: number): number {
  const side = 2 ** order;
  const { t, u } = za2tu(Math.sin(dec * DEGREE), (((ra % 360) + 360) % 360) * DEGREE);
  const { f, x, y } = tu2fxy(side, t, u);
  const low = bit_combine(x % HALF, y % HALF);
  return f * side * side + low + HALF * HALF * bit_combine(Math.floor(x / HALF), Math.floor(y / HALF));
}

// The outline of a pixel, clockwise as seen from outside of the sphere: ra, dec, ra, dec...
// `parts` points on each edge: edges of pixels are no great circles.
export function outline(order: number, npix: number, parts: number): Float64Array {
  const { face, x, y } = placeOf(order, npix);
  const side = 2 ** order;
  const points = new Float64Array(8 * parts);
  const middle = longitude(side, face, x + 0.5, y + 0.5);
  for (let at = 0; at < parts; at++) {
    const share = at / parts;
    put(points, at, side, face, x + 1, y + 1 - share, middle); // north to east
    put(points, parts + at, side, face, x + 1 - share, y, middle); // east to south
    put(points, 2 * parts + at, side, face, x, y + share, middle); // south to west
    put(points, 3 * parts + at, side, face, x + share, y + 1, middle); // west to north
  }
  return points;
}

export function centre(order: number, npix: number): [number, number] {
  const { face, x, y } = placeOf(order, npix);
  const { t, u } = fxy2tu(2 ** order, face, x, y);
  const { z, a } = tu2za(t, u);
  return [(a / DEGREE) % 360, latitude(z, u)];
}

// So many parts that no edge is longer than about 2.5 degrees.
export function edgeParts(order: number): number {
  return Math.max(1, Math.ceil(58.6 / 2 ** order / 2.5));
}

function longitude(side: number, face: number, x: number, y: number): number {
  const { t, u } = fxy2tu(side, face, x - 0.5, y - 0.5);
  return tu2za(t, u).a / DEGREE;
}

function put(
  points: Float64Array, at: number, side: number, face: number, x: number, y: number, middle: number,
): void {
  const { t, u } = fxy2tu(side, face, x - 0.5, y - 0.5);
  const pole = Math.abs(u) >= Math.PI / 2 - 1e-12;
  const { z, a } = tu2za(t, u);
  // A pole has every longitude; its pixel's own keeps the outline from running around it.
  points[2 * at] = (pole ? middle : a / DEGREE) % 360;
  points[2 * at + 1] = pole ? 90 * Math.sign(u) : latitude(z, u);
}

// Near to the poles the sine says nothing any more; there the height over the plane does.
function latitude(z: number, u: number): number {
  if (Math.abs(z) < 0.9) return Math.asin(z) / DEGREE;
  const rest = 2 - (4 * Math.abs(u)) / Math.PI; // 1 - |z| = rest² / 3
  return Math.sign(u) * (90 - (2 * Math.asin(rest / Math.sqrt(6))) / DEGREE);
}

export function pixelArea(order: number): number {
  return (4 * Math.PI) / (12 * 4 ** order) / (DEGREE * DEGREE); // square degrees
}

// The place of the pixel that holds a unit vector, for orders up to 24. Written into `into`: this is called for every
// pixel of the screen.
export function placeVector(order: number, x: number, y: number, z: number, into: Place): void {
  const side = 2 ** order;
  const most = side - 1;
  const turn = Math.atan2(y, x) / (Math.PI / 2);
  const around = turn < 0 ? turn + 4 : turn; // quarters of a turn
  const height = Math.abs(z);
  if (3 * height <= 2) {
    const across = side * (0.5 + around);
    const up = side * z * 0.75;
    const down = Math.floor(across - up); // lines that rise to the east, and to the west
    const rise = Math.floor(across + up);
    const [row, column] = [Math.floor(down / side), Math.floor(rise / side)];
    into.face = row === column ? (row & 3) + 4 : row < column ? row & 3 : (column & 3) + 8;
    into.x = rise & most;
    into.y = most - (down & most);
    return;
  }
  const quarter = Math.min(3, Math.floor(around));
  const share = around - quarter;
  // 1 - |z| from x and y: near to the poles the difference would have lost its digits.
  const far = side * Math.sqrt((3 * (x * x + y * y)) / (1 + height));
  const east = Math.min(most, Math.floor(share * far));
  const west = Math.min(most, Math.floor((1 - share) * far));
  into.face = z > 0 ? quarter : quarter + 8;
  into.x = z > 0 ? most - west : east;
  into.y = z > 0 ? most - east : west;
}

// The number of a pixel from its place in its face.
export function pixelOf(order: number, { face, x, y }: Place): number {
  const side = 2 ** order;
  const low = bit_combine(x % HALF, y % HALF);
  const high = bit_combine(Math.floor(x / HALF), Math.floor(y / HALF));
  return face * side * side + low + HALF * HALF * high;
}

export function vectorOf(ra: number, dec: number): [number, number, number] {
  const flat = Math.cos(dec * DEGREE);
  return [flat * Math.cos(ra * DEGREE), flat * Math.sin(ra * DEGREE), Math.sin(dec * DEGREE)];
}
