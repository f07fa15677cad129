// Texts of regions, as the server reads them, for what the map shows; and their outlines.
import { circle, separation } from "./frames";
import type { SkyMap } from "./sky";

const SMALL = 50; // degrees across below which the corners of the map are those of a polygon

// What the map shows; "" where that is most of the sky.
export function regionInSight(sky: SkyMap): string {
  const corners = sky.corners();
  const middle = sky.looksAt;
  if (!corners || !middle) return "";
  const far = Math.max(...corners.map(([ra, dec]) => separation(middle.ra, middle.dec, ra, dec)));
  const digits = Math.max(3, Math.min(8, Math.ceil(3 - Math.log10(far))));
  const place = ([ra, dec]: [number, number]): string => `${ra.toFixed(digits)} ${dec.toFixed(digits)}`;
  if (far < SMALL / 2) return `polygon ${corners.map(place).join(", ")}`;
  return far < 80 ? `cone ${place([middle.ra, middle.dec])} ${far.toFixed(3)}deg` : "";
}

// The outline of a cone, box or polygon, to draw; none for other regions.
export function outlines(region: string): [number, number][][] {
  const [kind, ...rest] = region.trim().split(/\s+/);
  const text = rest.join(" ");
  if (kind === "cone") {
    const found = /^(\S+?),? +(\S+?),? +([\d.eE+-]+) *(deg|arcmin|arcsec|rad)?$/.exec(text);
    if (!found) return [];
    const unit = { deg: 1, arcmin: 1 / 60, arcsec: 1 / 3600, rad: 180 / Math.PI }[found[4] ?? "deg"]!;
    const [ra, dec, radius] = [Number(found[1]), Number(found[2]), Number(found[3]) * unit];
    return [ra, dec, radius].every(Number.isFinite) ? [circle(ra, dec, radius)] : [];
  }
  if (kind === "polygon") {
    const corners = text.split(",").map((each) => each.trim().split(/\s+/).map(Number) as [number, number]);
    return corners.length > 2 && corners.flat().every(Number.isFinite) ? [edges([...corners, corners[0]])] : [];
  }
  if (kind === "box") {
    const found = /ra +([\d.eE+-]+?)\.\.([\d.eE+-]+) +dec +([\d.eE+-]+?)\.\.([\d.eE+-]+)/.exec(text);
    if (!found) return [];
    const [west, to, south, north] = found.slice(1).map(Number);
    const east = to < west ? to + 360 : to;
    const along = (dec: number): [number, number][] =>
      Array.from({ length: 73 }, (_, at) => [(west + (at / 72) * (east - west)) % 360, dec]);
    return [[...along(south), ...along(north).reverse(), [west, south]]];
  }
  return [];
}

// Points along great circles between corners.
function edges(corners: [number, number][]): [number, number][] {
  const found: [number, number][] = [corners[0]];
  const vector = ([ra, dec]: [number, number]): number[] => {
    const [a, d] = [(ra * Math.PI) / 180, (dec * Math.PI) / 180];
    return [Math.cos(d) * Math.cos(a), Math.cos(d) * Math.sin(a), Math.sin(d)];
  };
  for (let at = 0; at + 1 < corners.length; at++) {
    const [from, to] = [vector(corners[at]), vector(corners[at + 1])];
    for (let part = 1; part <= 16; part++) {
      const [x, y, z] = from.map((value, axis) => value + (part / 16) * (to[axis] - value));
      const ra = (Math.atan2(y, x) * 180) / Math.PI;
      found.push([(ra + 360) % 360, (Math.atan2(z, Math.hypot(x, y)) * 180) / Math.PI]);
    }
  }
  return found;
}

// Degrees that a region is across, roughly, and its middle, to zoom to; null where that is not known.
export function extent(region: string): { ra: number; dec: number; across: number } | null {
  const points = outlines(region).flat();
  if (!points.length) return null;
  const sum = [0, 0, 0];
  for (const [ra, dec] of points) {
    const [a, d] = [(ra * Math.PI) / 180, (dec * Math.PI) / 180];
    sum[0] += Math.cos(d) * Math.cos(a);
    sum[1] += Math.cos(d) * Math.sin(a);
    sum[2] += Math.sin(d);
  }
  const ra = ((Math.atan2(sum[1], sum[0]) * 180) / Math.PI + 360) % 360;
  const dec = (Math.atan2(sum[2], Math.hypot(sum[0], sum[1])) * 180) / Math.PI;
  return { ra, dec, across: 2 * Math.max(...points.map(([x, y]) => separation(ra, dec, x, y))) };
}
