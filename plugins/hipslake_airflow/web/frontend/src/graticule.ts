// Lines of longitude and latitude of a frame, and what stands beside them.
import type { Frame } from "./frames";
import type { Plane as SkyPlane } from "./shapes";

export interface View {
  width: number;
  height: number;
  toScreen: (x: number, y: number) => [number, number];
  toPlane: (x: number, y: number) => [number, number];
}

export interface GridLabel {
  text: string;
  x: number;
  y: number;
  align: CanvasTextAlign;
}

export interface Grid {
  lines: [number, number][][]; // on the screen
  labels: GridLabel[];
}

const DEC_STEPS = [30, 15, 10, 5, 2, 1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005];
const RA_STEPS = [30, 15, 7.5, 5, 2.5, 1.25, 0.5, 0.25, 0.125, 0.05, 0.025, 0.0125, 0.005, 0.0025, 0.00125, 0.0005, 0.00025, 0.000125];

interface Range {
  west: number; // unwrapped: may be below 0
  east: number;
  south: number;
  north: number;
  whole: boolean; // all right ascensions
}

// A plane as seen from a frame: `ra` and `dec` below are longitude and latitude of it.
interface Plane {
  place: (ra: number, dec: number) => [number, number] | null;
  position: (x: number, y: number) => [number, number] | null;
  hours: boolean;
}

export function gridOf(sky: SkyPlane, view: View, frame: Frame): Grid {
  const plane: Plane = {
    place: (lon, lat) => sky.place(...frame.toIcrs(lon, lat)),
    position: (x, y) => {
      const found = sky.position(x, y);
      return found && frame.from(found[0], found[1]);
    },
    hours: frame.hours,
  };
  const range = rangeOf(plane, view);
  if (!range) return { lines: [], labels: [] };
  const decStep = stepFor(DEC_STEPS, range.north - range.south, view.height);
  const raStep = stepFor(RA_STEPS, (range.east - range.west) * Math.cos(nearest(range) * (Math.PI / 180)), view.width);
  const grid: Grid = { lines: [], labels: [] };
  for (let at = Math.ceil(range.south / decStep); at * decStep <= range.north; at++) {
    if (Math.abs(at * decStep) < 90) addParallel(grid, plane, view, range, at * decStep, decStep);
  }
  for (let at = Math.ceil(range.west / raStep); at * raStep <= range.east; at++) {
    if (range.whole && at * raStep >= range.west + 360 - 1e-9) break;
    addMeridian(grid, plane, view, range, at * raStep, raStep);
  }
  return grid;
}

function nearest(range: Range): number {
  if (range.south <= 0 && range.north >= 0) return 0;
  return Math.min(Math.abs(range.south), Math.abs(range.north), 88);
}

// The smallest step that leaves lines about 110 pixels apart.
function stepFor(steps: number[], span: number, pixels: number): number {
  let chosen = steps[0];
  for (const step of steps) if ((step / span) * pixels >= 90) chosen = step;
  return chosen;
}

// What of the sky the screen shows, from a raster of it.
function rangeOf(plane: Plane, view: View): Range | null {
  const seen: [number, number][] = [];
  for (let row = 0; row <= 16; row++) {
    for (let column = 0; column <= 24; column++) {
      const found = plane.position(...view.toPlane((column / 24) * view.width, (row / 16) * view.height));
      if (found) seen.push(found);
    }
  }
  if (!seen.length) return null;
  const middle = seen[seen.length >> 1][0];
  const offsets = seen.map(([ra]) => ((((ra - middle + 180) % 360) + 360) % 360) - 180);
  const decs = seen.map(([, dec]) => dec);
  let [south, north] = [Math.min(...decs), Math.max(...decs)];
  const inView = (dec: number): boolean => {
    const at = plane.place(0, dec);
    if (!at) return false;
    const [x, y] = view.toScreen(at[0], at[1]);
    return x >= 0 && x <= view.width && y >= 0 && y <= view.height;
  };
  const poles = [inView(-90), inView(90)];
  if (poles[0]) south = -90;
  if (poles[1]) north = 90;
  const [west, east] = [Math.min(...offsets), Math.max(...offsets)];
  const whole = east - west > 300 || poles[0] || poles[1];
  const slack = (east - west) / 20;
  const low = whole ? 0 : middle + west - slack;
  const high = whole ? 360 : middle + east + slack;
  const more = (north - south) / 14;
  return { west: low, east: high, south: Math.max(-90, south - more), north: Math.min(90, north + more), whole };
}

function addMeridian(grid: Grid, plane: Plane, view: View, range: Range, ra: number, step: number): void {
  const top = Math.min(range.north, 90);
  const bottom = Math.max(range.south, -90);
  const points = run(plane, view, 96, (share) => [ra, bottom + share * (top - bottom)]);
  grid.lines.push(...points.map((piece) => piece.map(([x, y]) => [x, y] as [number, number])));
  const text = (plane.hours ? raLabel : lonLabel)(((ra % 360) + 360) % 360, step);
  if (range.whole && range.north - range.south > 120) {
    const at = plane.place(ra, 0);
    if (at) label(grid, view, text, view.toScreen(at[0], at[1]), "center", 4, -7);
    return;
  }
  // Near to a pole all meridians are close together.
  const away = run(plane, view, 96, (share) => [ra, Math.max(bottom, -75) + share * (Math.min(top, 75) - Math.max(bottom, -75))]);
  const inside = (top - bottom > 20 ? away : points).flat().filter((point) => isInside(view, point, 14));
  if (!inside.length) return;
  const lowest = inside.reduce((one, other) => (other[1] > one[1] ? other : one));
  label(grid, view, text, lowest, "left", 4, -4);
}

function addParallel(grid: Grid, plane: Plane, view: View, range: Range, dec: number, step: number): void {
  const points = run(plane, view, 180, (share) => [range.west + share * (range.east - range.west), dec]);
  grid.lines.push(...points);
  const text = decLabel(dec, step);
  const inside = points.flat().filter((point) => isInside(view, point, 4));
  if (!inside.length) return;
  const first = inside.reduce((one, other) => (other[0] < one[0] ? other : one));
  const atLimb = first[0] > 46;
  label(grid, view, text, first, atLimb ? "right" : "left", atLimb ? -5 : 4, atLimb ? 4 : -4);
}

// A line in pieces: it is broken where the projection is.
function run(plane: Plane, view: View, parts: number, at: (share: number) => [number, number]): [number, number][][] {
  const pieces: [number, number][][] = [[]];
  let last: [number, number] | null = null;
  for (let part = 0; part <= parts; part++) {
    const [ra, dec] = at(part / parts);
    const placed = plane.place(ra, dec);
    if (!placed || (last && Math.hypot(placed[0] - last[0], placed[1] - last[1]) > 200)) pieces.push([]);
    last = placed;
    if (placed) pieces[pieces.length - 1].push(view.toScreen(placed[0], placed[1]));
  }
  return pieces.filter((piece) => piece.length > 1);
}

function isInside(view: View, [x, y]: [number, number], edge: number): boolean {
  return x >= 0 && x <= view.width - 40 && y >= edge && y <= view.height - 4;
}

function label(
  grid: Grid, view: View, text: string, [x, y]: [number, number], align: CanvasTextAlign, right: number, down: number,
): void {
  if (x < 0 || y < 8 || x > view.width || y > view.height) return;
  const made = { text, x: x + (align === "center" ? 0 : right), y: y + down, align };
  if (grid.labels.every((other) => areApart(made, other))) grid.labels.push(made);
}

function areApart(one: GridLabel, other: GridLabel): boolean {
  return Math.abs(one.y - other.y) > 14 || Math.abs(middle(one) - middle(other)) > (wide(one) + wide(other)) / 2 + 6;
}

const wide = (label: GridLabel): number => 6.6 * label.text.length;

function middle(label: GridLabel): number {
  if (label.align === "center") return label.x;
  return label.x + (label.align === "left" ? wide(label) : -wide(label)) / 2;
}

function raLabel(ra: number, step: number): string {
  const total = Math.round((ra / 15) * 3600 * 1000) / 1000;
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  if (step >= 15) return `${h}h`;
  if (step >= 0.25) return `${h}h ${String(m).padStart(2, "0")}m`;
  return `${h}h ${String(m).padStart(2, "0")}m ${s.toFixed(step < 0.0005 ? 2 : step < 0.0125 ? 1 : 0).padStart(2, "0")}s`;
}

function lonLabel(lon: number, step: number): string {
  const digits = step >= 15 ? 0 : step >= 1 ? 1 : 5;
  return `${Number(lon.toFixed(digits))}°`;
}

function decLabel(dec: number, step: number): string {
  const sign = dec > 1e-9 ? "+" : dec < -1e-9 ? "−" : "";
  const digits = step >= 1 ? 0 : Math.ceil(-Math.log10(step) - 1e-9) + (step === 0.25 ? 1 : 0);
  return `${sign}${Math.abs(dec).toFixed(digits)}°`;
}
