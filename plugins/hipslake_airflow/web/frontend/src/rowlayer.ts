// Rows on the map, drawn from leaf files where few enough are in sight.
import { Refused, server, type Catalog, type DataColumn, type Matches, type Rows, type Value } from "./api";
import { viridis } from "./colours";
import { count } from "./format";
import { regionInSight } from "./regions";
import type { Looking } from "./scope";
import type { SkyMap } from "./sky";
import { asNumber, shown } from "./values";

export const MOST_DRAWN = 5000;
const FEW = 30_000; // rows in sight below which they are drawn by themselves
const MOST_LINES = 2000;
const LINES_BELOW = 3; // degrees across
const BINS = 24;

export type Shown = "auto" | "always" | "never";

export class RowLayer {
  rows: Rows | null = null;
  shown: Shown = "auto";
  colourBy = "";
  sizeBy = "";
  onTold: (text: string) => void = () => {};
  onLegend: (legend: { column: DataColumn; least: number; most: number } | null) => void = () => {};
  private asked: AbortController | null = null;
  private last = "";
  matches: Matches | null = null;

  constructor(
    private readonly catalog: Catalog, private readonly sky: SkyMap, private readonly looking: Looking,
    private readonly plain: () => string,
  ) {}

  // Draws the rows that are in sight, or none where they are too many.
  async refresh(): Promise<void> {
    if (!this.isWanted()) {
      this.clear();
      return;
    }
    const region = regionInSight(this.sky);
    const { filters } = this.looking.now;
    const columns = [...new Set([this.colourBy, this.sizeBy].filter(Boolean))];
    const wanted = JSON.stringify([this.catalog.version, region, filters, columns]);
    if (wanted === this.last) return;
    this.last = wanted;
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    try {
      const first = columns.length ? columns : this.catalog.groups[0].columns.slice(0, 1).map(({ name }) => name);
      const found = await server.rows(this.catalog.name, this.catalog.version,
        { region, filters, columns: first, limit: MOST_DRAWN, spread: true }, asked.signal);
      if (asked.signal.aborted) return;
      this.show(found);
      this.onTold(told(found));
      await this.drawMatches(region);
    } catch (error) {
      if (asked.signal.aborted) return;
      this.last = "";
      this.onTold((error as Error).message);
    }
  }

  // What stands beside a point.
  words(at: number): string[] {
    if (!this.rows) return [];
    return this.rows.columns.map((column, index) =>
      `${column.name} ${shown(this.rows!.data[index][at], column)}${column.unit ? ` ${column.unit}` : ""}`);
  }

  redraw(): void {
    if (this.rows) this.show(this.rows);
  }

  // Draws anew what is in sight, also where the region is the same.
  again(): void {
    this.last = "";
    void this.refresh();
  }

  private isWanted(): boolean {
    if (this.shown !== "auto") return this.shown === "always";
    const inSight = this.sky.rowsInSight;
    return inSight !== null && inSight <= FEW && this.sky.fieldOfView[0] < 60;
  }

  private clear(): void {
    this.asked?.abort();
    this.last = "";
    if (!this.rows) return;
    this.rows = this.matches = null;
    this.sky.showPoints(null);
    this.sky.showSegments([]);
    this.onTold("");
    this.onLegend(null);
  }

  private show(rows: Rows): void {
    this.rows = rows;
    const index = (name: string): number => rows.columns.findIndex((column) => column.name === name);
    const { colour, colours } = this.coloured(rows, index(this.colourBy));
    this.sky.showPoints({ ra: rows.ra, dec: rows.dec, colour, colours, radius: this.sized(rows, index(this.sizeBy)) });
    const { key } = this.looking.now;
    this.sky.markPoint(key ? rows.keys.indexOf(key) : -1);
  }

  private coloured(rows: Rows, at: number): { colour: Uint8Array; colours: string[] } {
    if (at < 0) {
      this.onLegend(null);
      return { colour: new Uint8Array(rows.ra.length), colours: [this.plain()] };
    }
    const { values, least, most } = ranged(rows.data[at]);
    this.onLegend({ column: rows.columns[at], least, most });
    const colours = [...Array.from({ length: BINS }, (_, bin) => viridis(bin / (BINS - 1))), "#8a8f98"];
    const colour = Uint8Array.from(values, (value) =>
      Number.isNaN(value) ? BINS : Math.max(0, Math.min(BINS - 1, Math.floor(((value - least) / (most - least || 1)) * BINS))));
    return { colour, colours };
  }

  private sized(rows: Rows, at: number): Float32Array {
    const plain = rows.ra.length < 500 ? 4 : rows.ra.length < 2500 ? 3 : 2;
    if (at < 0) return new Float32Array(rows.ra.length).fill(plain);
    const { values, least, most } = ranged(rows.data[at]);
    // Magnitudes are the brighter the smaller they are.
    const turned = /mag/i.test(rows.columns[at].unit ?? "") || /mag$/i.test(rows.columns[at].name);
    return Float32Array.from(values, (value) => {
      const share = Math.max(0, Math.min(1, (value - least) / (most - least || 1)));
      return Number.isNaN(value) ? 1.5 : 1.5 + 7 * (turned ? 1 - share : share) ** 2;
    });
  }

  private async drawMatches(region: string): Promise<void> {
    if (this.sky.fieldOfView[0] > LINES_BELOW || !region || this.catalog.dags.crossmatch === undefined) {
      this.matches = null;
      this.sky.showSegments([]);
      return;
    }
    try {
      const found = await server.matches(this.catalog.name, this.catalog.version, region, MOST_LINES);
      this.matches = found;
      const segments: [number, number][][] = [];
      found.left_ra.forEach((ra, at) => {
        const [right, down] = [found.right_ra[at], found.right_dec[at]];
        if (right !== null && down !== null) segments.push([[ra, found.left_dec[at]], [right, down]]);
      });
      this.sky.showSegments(segments);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      this.matches = null;
    }
  }
}

function told({ rows, truncated, total, estimate }: Rows): string {
  if (!truncated) return `${count(rows)} rows drawn`;
  if (total !== null) return `${count(rows)} of ${count(total)} rows drawn`;
  return estimate !== null && estimate > rows ? `${count(rows)} of about ${count(estimate)} rows drawn` : `${count(rows)} rows drawn, and there are more`;
}

// Values as numbers, and the range that most of them are in.
function ranged(column: Value[]): { values: Float64Array; least: number; most: number } {
  const values = Float64Array.from(column, asNumber);
  const known = values.filter((value) => Number.isFinite(value)).sort();
  if (!known.length) return { values, least: 0, most: 1 };
  return { values, least: known[Math.floor(0.02 * (known.length - 1))], most: known[Math.ceil(0.98 * (known.length - 1))] };
}

