// Celestial frames: where a position of one lies in another. Angles in degrees.
import { geoRotation } from "d3-geo";
import { CENTRES } from "./projections";

export interface Frame {
  name: string;
  from: (ra: number, dec: number) => [number, number]; // of an ICRS position
  toIcrs: (lon: number, lat: number) => [number, number];
  hours: boolean; // whether longitudes are told in hours
}

const OBLIQUITY = 23.4392794; // of the ecliptic of J2000, IAU 2006
const DEGREE = Math.PI / 180;

const galactic = geoRotation(CENTRES.galactic.rotation);

function aboutEquinox(angle: number): (lon: number, lat: number) => [number, number] {
  const [sine, cosine] = [Math.sin(angle * DEGREE), Math.cos(angle * DEGREE)];
  return (lon, lat) => {
    const flat = Math.cos(lat * DEGREE);
    const [x, y, z] = [flat * Math.cos(lon * DEGREE), flat * Math.sin(lon * DEGREE), Math.sin(lat * DEGREE)];
    const [along, up] = [cosine * y + sine * z, cosine * z - sine * y];
    return [positive(Math.atan2(along, x) / DEGREE), Math.asin(Math.max(-1, Math.min(1, up))) / DEGREE];
  };
}

const positive = (angle: number): number => ((angle % 360) + 360) % 360;

export const FRAMES: Record<string, Frame> = {
  equatorial: { name: "Equatorial", from: (ra, dec) => [ra, dec], toIcrs: (ra, dec) => [ra, dec], hours: true },
  galactic: {
    name: "Galactic",
    from: (ra, dec) => {
      const [l, b] = galactic([ra, dec]);
      return [positive(l), b];
    },
    toIcrs: (l, b) => {
      const [ra, dec] = galactic.invert([l > 180 ? l - 360 : l, b]);
      return [positive(ra), dec];
    },
    hours: false,
  },
  ecliptic: { name: "Ecliptic", from: aboutEquinox(OBLIQUITY), toIcrs: aboutEquinox(-OBLIQUITY), hours: false },
};

// The angle between two positions.
export function separation(ra1: number, dec1: number, ra2: number, dec2: number): number {
  const [d1, d2] = [dec1 * DEGREE, dec2 * DEGREE];
  const [up, along] = [Math.sin((d2 - d1) / 2), Math.sin(((ra2 - ra1) * DEGREE) / 2)];
  return (2 * Math.asin(Math.min(1, Math.sqrt(up * up + Math.cos(d1) * Math.cos(d2) * along * along)))) / DEGREE;
}

// Points around a position, at a distance.
export function circle(ra: number, dec: number, radius: number, parts = 72): [number, number][] {
  const back = geoRotation([-ra, -dec, 0]);
  return Array.from({ length: parts + 1 }, (_, at) => {
    const angle = (at / parts) * 2 * Math.PI;
    const lat = Math.asin(Math.sin(radius * DEGREE) * Math.sin(angle)) / DEGREE;
    const lon = Math.atan2(Math.sin(radius * DEGREE) * Math.cos(angle), Math.cos(radius * DEGREE)) / DEGREE;
    const [found, height] = back.invert([lon, lat]);
    return [positive(found), height] as [number, number];
  });
}
