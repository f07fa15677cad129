// What the server answers. All addresses are relative to the page.
import { Cells, type CellColumns } from "./cells";

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
  problem: string | null;
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
  problem: string | null;
}

export interface Increment {
  ordinal: number;
  key: string | null;
  end: string | null;
  rows: number;
  rejected: number;
  source_files: number;
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
  created: string;
  layout: string;
  rows: number;
  bytes: number;
  rows_read: number;
  rows_rejected: number;
  groups: Group[];
  margins: { name: string; radius_arcsec: number; rows: number; bytes: number; files: number }[];
  increments: Increment[];
  increments_in_all: number;
  co_partitioned: string[];
  indices: string[];
  lines: { tool: string; language: string; text: string }[];
  dags: Record<string, string>;
  last_runs: Run[];
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
  bytes: number;
  files: number;
  seconds: Record<string, number>;
  finished: string | null;
}

export interface Layer {
  layer: "group" | "margin" | "increment" | "added" | "removed";
  of: string;
  since?: number;
}

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function get<T>(path: string): Promise<T> {
  const answer = await fetch(`api/${path}`, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (answer.ok) return (await answer.json()) as T;
  const told = (await answer.json().catch(() => ({}))) as { detail?: unknown };
  throw new Refused(answer.status, reason(answer.status, told.detail));
}

function reason(status: number, detail: unknown): string {
  if (status === 401) return "The session has ended: log in again.";
  if (status === 403) return "You may not see this: it takes the right to read its DAG.";
  return typeof detail === "string" ? detail : `The server answers with ${status}.`;
}

const at = (name: string): string => `catalogs/${encodeURIComponent(name)}`;

function asked(version: number, layer: Layer): string {
  const parameters = new URLSearchParams({ version: String(version), layer: layer.layer, of: layer.of });
  if (layer.since !== undefined) parameters.set("since", String(layer.since));
  return String(parameters);
}

export const server = {
  catalogs: (): Promise<Listed[]> => get("catalogs"),
  tables: (): Promise<Product[]> => get("tables"),
  cubes: (): Promise<Product[]> => get("cubes"),
  catalog: (name: string, version: number | null): Promise<Catalog> =>
    get(version === null ? at(name) : `${at(name)}?version=${version}`),
  versions: (name: string, before: number | null): Promise<Version[]> =>
    get(`${at(name)}/versions${before === null ? "" : `?before=${before}`}`),
  diff: (name: string, old: number, now: number): Promise<Diff> => get(`${at(name)}/diff?old=${old}&new=${now}`),
  runs: (name: string): Promise<Run[]> => get(`${at(name)}/runs`),
  reports: (run: Run): Promise<Step[]> =>
    get(`reports?${new URLSearchParams({ dag_id: run.dag_id, run_id: run.run_id })}`),
  cells: async (name: string, version: number, layer: Layer): Promise<Cells> =>
    new Cells(await get<CellColumns>(`${at(name)}/cells?${asked(version, layer)}`)),
  tile: async (name: string, version: number, layer: Layer, order: number, npix: number): Promise<Cells> =>
    new Cells(await get<CellColumns>(`${at(name)}/tiles/${order}/${npix}?${asked(version, layer)}`)),
};
