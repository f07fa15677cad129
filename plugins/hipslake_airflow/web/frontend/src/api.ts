// What the server answers. All addresses are relative to the page.
import { Cells, type CellColumns } from "./cells";
import type { Counts } from "./density";

export interface Run {
  dag_id: string;
  run_id: string;
  state: string;
  run_after: string;
  start: string | null;
  end: string | null;
}

export interface Listed {
  name: string;
  description: string;
  version: number | null;
  rows: number | null;
  bytes: number | null;
  partitions: number | null;
  layout: string | null;
  created: string | null;
  last_run: Run | null;
  last_failed?: Failure | null;
  problem: string | null;
  spec_problem?: string | null;
  nights?: number | null;
  kind?: string | null;
  relation?: Relation | null;
}

// How a catalog stands to one of others: versions of ours stand for it, or it is read where it lies.
export type Relation = "adopted" | "read";

export interface Source {
  relation: Relation;
  uri: string;
  copied: boolean;
  name: string;
  builder: string;
  made: string | null;
  state: string;
  looked_at: string | null;
  properties: Record<string, string>;
}

// The newest run that failed.
export interface Failure {
  dag_id: string;
  run_id: string;
  run_after: string;
  error: string | null;
}

export interface Product {
  name: string;
  title: string;
  description: string;
  version: string | null;
  rows: number | null;
  bytes: number | null;
  files: number | null;
  created: string | null;
  last_run: Run | null;
  last_failed?: Failure | null;
  problem: string | null;
  spec_problem?: string | null;
  spec_notes?: string[]; // old forms in it
}

export interface Increment {
  ordinal: number;
  key: string | null;
  end: string | null;
  rows: number;
  rejected: number;
  source_files: number;
  inserted?: number | null; // these three of a catalog in mode upsert: keys
  updated?: number | null;
  deleted?: number | null;
}

export interface Column {
  name: string;
  type: string;
  unit: string | null;
  description: string | null;
}

export interface Group {
  name: string;
  rows: number;
  bytes: number;
  leaves: number;
  files: number;
  threshold: string;
  columns: Column[];
  leaves_per_order: Record<string, number>;
}

export interface Catalog {
  name: string;
  uri: string;
  description: string;
  attribution: string;
  version: number;
  newest: number;
  created: string | null; // null: others do not say it
  layout: string;
  rows: number;
  bytes: number;
  rows_read: number;
  rows_rejected: number;
  rows_superseded: number;
  rows_near_borders: number | null; // of a match without a margin
  groups: Group[];
  margins: { name: string; radius_arcsec: number; rows: number; bytes: number; files: number }[];
  increments: Increment[];
  increments_in_all: number;
  co_partitioned: string[];
  indices: string[];
  lines: { tool: string; language: string; text: string }[];
  dags: Record<string, string>;
  last_runs: Run[];
  last_failed?: Failure | null;
  spec_problem?: string | null;
  source?: Source | null;
}

export interface Version {
  version: number;
  parent: number | null;
  kind: string | null;
  restored: number | null;
  write_id: string;
  created: string;
  library_version: string;
  rows: number;
  bytes: number;
  files: number;
  leaves: number;
  rows_added: number | null;
  bytes_added: number | null;
  increments_added: Increment[];
  rows_replaced: number | null; // of nights that came again: what they had brought before
  inserted: number | null; // these three of catalogs in mode upsert: keys
  updated: number | null;
  deleted: number | null;
}

export interface FilesChanged {
  name: string;
  files_added: number;
  files_removed: number;
  files_kept: number;
  rows_added: number;
  rows_removed: number;
  bytes_added: number;
  bytes_removed: number;
}

export interface Diff {
  old: number;
  new: number;
  rows: number;
  bytes: number;
  groups: FilesChanged[];
  margins: FilesChanged[];
  columns: { group: string; name: string; old: string | null; new: string | null }[];
  increments_added: Increment[];
  increments_removed: Increment[];
  indices_added: string[];
  indices_removed: string[];
}

export interface Step {
  step: string;
  ok: boolean;
  reused: boolean;
  error: string | null;
  rows_in: number;
  rows_out: number;
  rows_rejected: number;
  rows_superseded: number;
  bytes: number;
  files: number;
  seconds: Record<string, number>;
  finished: string | null;
}

export interface DataColumn {
  name: string;
  type: string;
  kind: "number" | "integer" | "truth" | "text" | "time" | "nested" | "other";
  unit: string | null;
  ucd: string | null;
  description: string | null;
  group: string;
  encoding?: "number" | "text";
}

export type Value = null | number | string | boolean | Value[] | { [name: string]: Value };

// Rows, column by column.
export interface Rows {
  version: number;
  columns: DataColumn[];
  data: Value[][];
  ra: number[];
  dec: number[];
  keys: string[];
  rows: number;
  truncated: boolean;
  why: "limit" | "time" | "bytes" | null;
  total: number | null;
  estimate: number | null;
}

export interface RowsAsked {
  region?: string;
  filters?: string;
  columns?: string[];
  limit?: number;
  sort?: string;
  descending?: boolean;
  spread?: boolean;
}

export interface CurveOffer {
  kind: "nested" | "catalog";
  column?: string;
  catalog?: string;
  on?: string[];
  value?: Value;
  times: string[];
  values: string[];
  bands: string[];
}

export interface Row {
  version: number;
  key: string;
  ra: number;
  dec: number;
  columns: DataColumn[];
  values: Value[];
  light_curves: CurveOffer[];
}

export interface Curve {
  columns: DataColumn[];
  time: string;
  data: Value[][];
  rows: number;
  truncated: boolean;
}

export interface ColumnStatistics extends DataColumn {
  indexed: boolean;
  problem: string | null; // why nothing is known of its values
  rows: number | null;
  nulls: number | null;
  min: Value;
  max: Value;
}

export interface Distribution {
  column: DataColumn;
  exact: boolean;
  rows: number;
  nulls: number;
  nans?: number | null;
  min: Value;
  max: Value;
  mean: number | null;
  deviation: number | null;
  histogram: { edges: number[]; counts: number[] } | null;
  frequent: { value: Value; count: number }[] | null;
}

export interface Place {
  ra: number;
  dec: number;
  label: string;
  key: string | null;
  column: string | null;
  value: Value;
}

export interface Answer {
  kind: "position" | "region" | "value";
  understood: string;
  places: Place[];
  region: string | null;
  truncated: boolean;
}

// A version in the timeline.
export interface Moment extends Version {
  nights: string[];
  replaced: string[]; // those of the nights that had come before
  indices: string[]; // that came with it
  margins: number[]; // radii in arcseconds of those that came with it
}

export interface NightRun {
  dag_id: string;
  run_id: string;
  state: string;
  start: string | null;
  end: string | null;
  error: string | null;
}

export interface Night {
  start: string;
  end: string;
  label: string;
  state: "in" | "replaced" | "empty" | "failed" | "running" | "late" | "due" | "missing";
  rows: number | null;
  rejected: number | null;
  ordinal: number | null;
  version: number | null;
  times: number;
  runs: NightRun[];
}

export interface Timeline {
  versions: Moment[];
  nights: Night[];
  schedule: string | null;
  last_error: NightRun | null;
}

export interface Matches {
  left: string;
  right: string;
  rows: number;
  truncated: boolean;
  left_ra: number[];
  left_dec: number[];
  right_ra: (number | null)[];
  right_dec: (number | null)[];
  separation_arcsec: (number | null)[];
  keys: string[];
}

export interface Lineage {
  nodes: {
    id: string;
    kind: "source" | "catalog" | "table" | "cube" | "join";
    name: string;
    title: string;
    dags: { does: string; dag_id: string }[];
    problem: string | null;
    published: boolean;
  }[];
  edges: { from: string; to: string; what: string }[];
}

export interface Side {
  name: string;
  version: number;
  rows: number;
}

export interface Comparison {
  left: Side;
  right: Side;
  order: number;
  npix: number[];
  left_rows: number[];
  right_rows: number[];
  columns: {
    left_only: DataColumn[];
    right_only: DataColumn[];
    differing: { name: string; left: string; right: string }[];
    same: number;
  };
  exact: boolean;
}

export interface Layer {
  layer: "group" | "margin" | "increment" | "added" | "removed";
  of: string;
  since?: number;
}

export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly told: unknown = null) {
    super(message);
  }
}

async function ask(path: string, accept: string, signal?: AbortSignal): Promise<Response> {
  const answer = await fetch(`api/${path}`, { headers: { Accept: accept }, credentials: "same-origin", signal });
  if (answer.ok) return answer;
  const told = (await answer.json().catch(() => ({}))) as { detail?: unknown };
  throw new Refused(answer.status, reason(answer.status, told.detail), told);
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, "application/json", signal)).json()) as T;
}

async function counts(path: string): Promise<Counts> {
  const answer = await ask(path, "application/octet-stream");
  const body = await answer.arrayBuffer();
  return answer.headers.get("X-Hipslake-Counts") === "float64" ? new Float64Array(body) : new Uint32Array(body);
}

function reason(status: number, detail: unknown): string {
  if (status === 401) return "The session has ended: log in again.";
  if (status === 403) return "You may not see this: it takes the right to read its DAG.";
  if (Array.isArray(detail)) return detail.map((each: { msg?: string }) => each.msg ?? "").join("; ");
  return typeof detail === "string" ? detail : `The server answers with ${status}.`;
}

const at = (name: string): string => `catalogs/${encodeURIComponent(name)}`;

function asked(version: number, layer: Layer): string {
  const parameters = new URLSearchParams({ version: String(version), layer: layer.layer, of: layer.of });
  if (layer.since !== undefined) parameters.set("since", String(layer.since));
  return String(parameters);
}

// Parameters of a query; what is empty is left away, and a list is given value by value.
export function query(given: Record<string, string | number | boolean | string[] | null | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    for (const each of Array.isArray(value) ? value : [value]) parameters.append(name, String(each));
  }
  const text = String(parameters);
  return text ? `?${text}` : "";
}

export function downloadPath(name: string, version: number, format: string, asked: RowsAsked): string {
  const { region, filters, columns } = asked;
  return `${at(name)}/download${query({ format, version, region, filters, columns })}`;
}

export const server = {
  catalogs: (): Promise<Listed[]> => get("catalogs"),
  tables: (): Promise<Product[]> => get("tables"),
  cubes: (): Promise<Product[]> => get("cubes"),
  catalog: (name: string, version: number | null): Promise<Catalog> =>
    get(version === null ? at(name) : `${at(name)}?version=${version}`),
  diff: (name: string, old: number, now: number): Promise<Diff> => get(`${at(name)}/diff?old=${old}&new=${now}`),
  runs: (name: string): Promise<Run[]> => get(`${at(name)}/runs`),
  reports: (run: Run): Promise<Step[]> =>
    get(`reports?${new URLSearchParams({ dag_id: run.dag_id, run_id: run.run_id })}`),
  cells: async (name: string, version: number, layer: Layer): Promise<Cells> =>
    new Cells(await get<CellColumns>(`${at(name)}/cells?${asked(version, layer)}`)),
  tile: async (name: string, version: number, layer: Layer, order: number, npix: number): Promise<Cells> =>
    new Cells(await get<CellColumns>(`${at(name)}/tiles/${order}/${npix}?${asked(version, layer)}`)),
  density: (name: string, version: number, order: number): Promise<Counts> =>
    counts(`${at(name)}/density${query({ version, order })}`),
  densityTile: (name: string, version: number, order: number, npix: number, deeper: number): Promise<Counts> =>
    counts(`${at(name)}/density/${order}/${npix}${query({ version, deeper })}`),
  rows: (name: string, version: number, asked: RowsAsked, signal?: AbortSignal): Promise<Rows> =>
    get(`${at(name)}/rows${query({ version, ...asked })}`, signal),
  row: (name: string, version: number, key: string): Promise<Row> => get(`${at(name)}/row${query({ key, version })}`),
  columns: (name: string, version: number): Promise<{ exact: boolean; rows: number; columns: ColumnStatistics[] }> =>
    get(`${at(name)}/columns${query({ version })}`),
  column: (name: string, version: number, column: string, asked: RowsAsked, bins = 40): Promise<Distribution> =>
    get(`${at(name)}/column${query({ column, version, bins, region: asked.region, filters: asked.filters })}`),
  search: (name: string, version: number, q: string): Promise<Answer> => get(`${at(name)}/search${query({ q, version })}`),
  timeline: (name: string, before: number | null = null): Promise<Timeline> => get(`${at(name)}/timeline${query({ before })}`),
  curve: (name: string, version: number, key: string, offer: CurveOffer): Promise<Curve> =>
    get(`${at(name)}/light_curve${query({ key, version, column: offer.column, catalog: offer.catalog })}`),
  matches: (name: string, version: number, region: string, limit: number): Promise<Matches> =>
    get(`${at(name)}/matches${query({ region, limit, version })}`),
  lineage: (of: string | null): Promise<Lineage> => get(`lineage${query({ of })}`),
  compare: (left: string, right: string, leftVersion: number | null, rightVersion: number | null, order: number): Promise<Comparison> =>
    get(`compare${query({ left, right, left_version: leftVersion, right_version: rightVersion, order })}`),
  product: (kind: "tables" | "cubes", name: string): Promise<Product & Record<string, unknown>> =>
    get(`${kind}/${encodeURIComponent(name)}`),
  // Asks for a file. What is too much is refused with the form that makes it.
  download: async (path: string): Promise<{ data: Blob; name: string }> => {
    const answer = await ask(path, "*/*");
    const named = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "");
    return { data: await answer.blob(), name: named?.[1] ?? "rows" };
  },
};
