// A table or a cube: what it holds, its versions and columns, the DAGs that make and keep it, and their runs.
import { server, type DataColumn, type Failure, type Product, type Run } from "./api";
import { clusteringOf, type Clustering } from "./clustering";
import { button, h, replace, table } from "./dom";
import { bytes, count, plural } from "./format";
import { failure, lastRun, since } from "./list";
import { linesOf, runOf } from "./parts";
import { openForm } from "./trigger";

interface Version {
  version: string;
  created: string | null;
  rows: number | null;
  bytes: number | null;
  files: number | null;
  what?: string | null;
}

interface Dataset {
  name: string;
  role?: string | null;
  rows: number | null;
  bytes: number | null;
  files: number | null;
  partitions?: number | null;
  columns?: DataColumn[];
}

export interface Detailed extends Product {
  uri?: string | null;
  dags?: Record<string, string>;
  last_runs?: Run[];
  last_failed?: Failure | null;
  columns?: DataColumn[];
  partitioning?: string | null;
  sorting?: string | null;
  clustering?: Clustering | null;
  versions?: Version[];
  datasets?: Dataset[];
  partition_columns?: string[];
  dimension_columns?: string[];
  lines?: { tool: string; language: string; text: string }[];
}

export async function showProduct(host: HTMLElement, kind: "tables" | "cubes", name: string): Promise<void> {
  const found = (await server.product(kind, name)) as Detailed;
  const word = kind === "tables" ? "Table" : "Cube";
  const facts: [string, string | HTMLElement | null][] = [
    ["Version", found.version ?? "–"], ["Rows", count(found.rows)], ["Bytes", bytes(found.bytes)], ["Files", count(found.files)],
    ["Written", since(found.created)], ["Partitioned by", found.partitioning ?? (found.partition_columns?.join(", ") || null)],
    ["Dimensions", found.dimension_columns?.join(", ") || null], ["Sorted by", found.sorting ?? null], ["Last run", lastRun(found.last_run)],
  ];
  const dags = Object.entries(found.dags ?? {});
  replace(host, h("header", {},
    h("p", {}, h("a", { href: "#/" }, "All catalogs, tables and cubes")),
    h("h1", {}, found.title, h("span", { class: "old" }, word.toLowerCase())),
    found.description ? h("p", { class: "about" }, found.description) : null,
    found.problem ? h("p", { class: "problem", role: "alert" }, found.problem) : null,
    found.spec_problem ? h("p", { class: "problem", role: "alert" }, `Its spec: ${found.spec_problem}`) : null,
    (found.spec_notes ?? []).map((note) => h("p", { class: "about" }, `Its spec has an old form. ${note}`)),
    failure(found.last_failed, found.last_run),
    h("dl", { class: "facts" }, facts.filter(([, value]) => value !== null).map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))),
    found.uri ? h("p", { class: "quiet" }, h("code", {}, found.uri)) : null,
    dags.length ? h("nav", { class: "actions", "aria-label": `DAGs of this ${word.toLowerCase()}` }, h("span", { class: "quiet" }, "Trigger:"),
      dags.map(([does, dagId]) => button(named(does), () => void openForm(dagId, { [kind === "tables" ? "table" : "cube"]: found.name }), { title: dagId }))) : null),
  found.clustering ? section("Clustering", clusteringOf(found.clustering)) : null, versions(found), datasets(found), columns(found.columns), runs(found.last_runs), found.lines?.length ? section("Open it", linesOf(found.lines)) : null);
}

export const named = (does: string): string => `${does[0].toUpperCase()}${does.slice(1).replaceAll("_", " ")}`;

function section(title: string, ...content: (HTMLElement | null)[]): HTMLElement {
  return h("section", {}, h("h2", {}, title), content);
}

function versions({ versions: found }: Detailed): HTMLElement | null {
  if (!found?.length) return null;
  return section("Versions", table("Versions, newest first", ["Version", "Written", "What it is", "Rows", "Bytes", "Files"], found.map((each) => [
    each.version, since(each.created), each.what ?? "", count(each.rows), bytes(each.bytes), count(each.files),
  ]), [3, 4, 5]));
}

function datasets({ datasets: found }: Detailed): HTMLElement | null {
  if (!found?.length) return null;
  return section("Datasets", table("Datasets", ["Dataset", "Role", "Rows", "Bytes", "Files", "Partitions", "Columns"], found.map((each) => [
    h("strong", {}, each.name), each.role ?? "", count(each.rows), bytes(each.bytes), count(each.files), count(each.partitions),
    each.columns?.length ? h("details", {}, h("summary", {}, plural(each.columns.length, "column")), h("ul", {}, each.columns.map(({ name, type, unit }) =>
      h("li", {}, h("code", {}, name), ` ${type}${unit ? `, ${unit}` : ""}`)))) : null,
  ]), [2, 3, 4, 5]));
}

function columns(found: DataColumn[] | undefined): HTMLElement | null {
  if (!found?.length) return null;
  return section("Columns", table("Columns", ["Column", "Type", "Unit", "UCD", "Description"], found.map((each) => [
    h("code", {}, each.name), h("code", {}, each.type), each.unit ?? "", each.ucd ?? "", each.description ?? "",
  ])));
}

function runs(found: Run[] | undefined): HTMLElement | null {
  return found?.length ? section("Runs", ...found.map((run, at) => runOf(run, at === 0))) : null;
}
