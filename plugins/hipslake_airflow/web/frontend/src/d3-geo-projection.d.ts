declare module "d3-geo-projection" {
  import type { GeoProjection } from "d3-geo";
  export function geoAitoff(): GeoProjection;
  export function geoHammer(): GeoProjection;
  export function geoMollweide(): GeoProjection;
}
