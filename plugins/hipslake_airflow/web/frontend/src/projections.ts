// The projections of the sky. East is left: the sky is seen from inside.
import {
  geoAzimuthalEqualArea, geoOrthographic, geoRotation, type GeoProjection,
} from "d3-geo";
import { geoAitoff, geoHammer, geoMollweide } from "d3-geo-projection";

export const SCALE = 400; // units of the plane per radian at the centre

export type Rotation = [number, number, number];
type Cut = "meridian" | "antipode" | "horizon"; // where the sphere is cut open

export interface ProjectionKind {
  name: string;
  make: () => GeoProjection;
  cut: Cut;
}

export const PROJECTIONS: Record<string, ProjectionKind> = {
  mollweide: { name: "Mollweide", make: geoMollweide, cut: "meridian" },
  hammer: { name: "Hammer", make: geoHammer, cut: "meridian" },
  aitoff: { name: "Aitoff", make: geoAitoff, cut: "meridian" },
  azimuthal: {
    name: "Azimuthal equal-area",
    make: () => geoAzimuthalEqualArea().clipAngle(180 - 1e-3),
    cut: "antipode",
  },
  globe: { name: "Globe", make: () => geoOrthographic().clipAngle(90 - 1e-6), cut: "horizon" },
};

const GALACTIC_CENTRE: [number, number] = [266.40499, -28.93617];
const GALACTIC_POLE: [number, number] = [192.85948, 27.12825];

export const CENTRES: Record<string, { name: string; rotation: Rotation }> = {
  ra0: { name: "RA 0h", rotation: [0, 0, 0] },
  ra6: { name: "RA 6h", rotation: [-90, 0, 0] },
  ra12: { name: "RA 12h", rotation: [-180, 0, 0] },
  ra18: { name: "RA 18h", rotation: [90, 0, 0] },
  galactic: { name: "Galactic centre", rotation: galactic() },
  north: { name: "North pole", rotation: [0, -90, 0] },
  south: { name: "South pole", rotation: [0, 90, 0] },
};

// Degrees, less than a pixel of the screen: no corner of a cell falls right onto a pole or cut of the projection, where
// it would have no direction.
const ASIDE: Rotation = [0.0071, 0.0113, 0.0029];

export function aside(rotation: Rotation): Rotation {
  return rotation.map((angle, at) => angle + ASIDE[at]) as Rotation;
}

export function makeProjection(kind: ProjectionKind, rotation: Rotation): GeoProjection {
  return kind.make().scale(SCALE).translate([0, 0]).rotate(rotation).reflectX(true).precision(0.2);
}

// The galactic centre in the middle, and the galactic north pole above it.
function galactic(): Rotation {
  const [ra, dec] = GALACTIC_CENTRE;
  const roll = (angle: number): Rotation => [-ra, -dec, angle];
  let best = roll(0);
  let highest = -91;
  for (let angle = -180; angle < 180; angle += 0.05) {
    const height = geoRotation(roll(angle))(GALACTIC_POLE)[1];
    if (height > highest) [best, highest] = [roll(angle), height];
  }
  return best;
}

// Points of the galactic plane, by galactic longitude: ra, dec in degrees.
export function galacticPlane(): [number, number][] {
  const back = geoRotation(CENTRES.galactic.rotation);
  return Array.from({ length: 361 }, (_, l) => back.invert([l > 180 ? l - 360 : l, 0]));
}

// Galactic longitude and latitude of a position, in degrees.
export function toGalactic(ra: number, dec: number): [number, number] {
  const [l, b] = geoRotation(CENTRES.galactic.rotation)([ra, dec]);
  return [(l + 360) % 360, b];
}
