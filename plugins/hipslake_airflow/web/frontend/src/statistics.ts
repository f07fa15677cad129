// Columns with their statistics; a column's values as a histogram.
import { server, type Catalog, type ColumnStatistics, type Distribution } from "./api";
import { histogram } from "./chart";
import { button, fill, h, replace } from "./dom";
import { bytes, count, plural } from "./format";
import type { Looking } from "./scope";
import { shown } from "./values";

export async function columnsTab(catalog: Catalog, looking: Looking): Promise<HTMLElement> {
  const groups = catalog.groups.map((group) => {
    const orders = Object.entries(group.leaves_per_order).map(([order, leaves]) => `${count(leaves)} of order ${order}`);
    return h("p", {}, h("strong", {}, `Column group ${group.name}: `),
      `${plural(group.rows, "row")}, ${bytes(group.bytes)}, ${plural(group.files, "file")}; partitions up to ${group.threshold}: ${orders.join(", ")}`);
  });
  const found = await server.columns(catalog.name, catalog.version);
  const body = h("tbody", {});
  const beside = h("div", { class: "card", hidden: true, "aria-live": "polite" });
  const draw = (wanted: string): void => {
    const kept = found.columns.filter(({ name, description, ucd }) =>
      `${name} ${description ?? ""} ${ucd ?? ""}`.toLowerCase().includes(wanted.toLowerCase()));
    replace(body, kept.map((column) => line(catalog, column, () => {
      beside.hidden = false;
      void fill(beside, distributionOf(catalog, column, looking));
    })));
  };
  const find = h("input", { type: "search", placeholder: "Find a column by name, description or UCD", "aria-label": "Find a column", class: "wide", input: () => draw(find.value) });
  draw("");
  const heads = ["Column", "Type", "Unit", "Least", "Greatest", "Nulls", "UCD", "Description"];
  return h("div", {}, groups, find,
    found.exact ? null : h("p", { class: "quiet" }, "Least, greatest and nulls are of some of the partitions."),
    h("div", { class: "besides" },
      h("div", { class: "scroll" }, h("table", { class: "dense" }, h("caption", { class: "unseen" }, "Columns"),
        h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: at > 2 && at < 6 ? "number" : null }, head)))), body)),
      beside));
}

function line(catalog: Catalog, column: ColumnStatistics, show: () => void): HTMLElement {
  return h("tr", {},
    h("td", {}, button(column.name, show, { class: "plain code", "aria-label": `Statistics of ${column.name}` }),
      column.indexed ? h("span", { class: "badge" }, "indexed") : null,
      catalog.co_partitioned.includes(column.name) ? h("span", { class: "badge" }, "co-partitioned") : null,
      catalog.groups.length > 1 ? h("span", { class: "badge" }, column.group) : null,
      column.problem ? h("p", { class: "quiet" }, column.problem) : null),
    h("td", {}, h("code", { title: column.type }, clipped(column.type))), h("td", {}, column.unit ?? ""),
    h("td", { class: "number" }, column.min === null ? "–" : clipped(shown(column.min, column))),
    h("td", { class: "number" }, column.max === null ? "–" : clipped(shown(column.max, column))),
    h("td", { class: "number" }, count(column.nulls)), h("td", {}, column.ucd ?? ""),
    h("td", { class: "about" }, column.description ?? ""));
}

const clipped = (text: string): string => (text.length > 26 ? `${text.slice(0, 25)}…` : text);

async function distributionOf(catalog: Catalog, column: ColumnStatistics, looking: Looking): Promise<HTMLElement[]> {
  const here = looking.now.region || looking.now.filters;
  const host = h("div", {});
  const show = async (everywhere: boolean): Promise<void> => {
    const scope = everywhere ? {} : { region: looking.now.region, filters: looking.now.filters };
    await fill(host, server.column(catalog.name, catalog.version, column.name, scope).then(drawn));
  };
  void show(true);
  return [
    h("h3", {}, column.name), column.description ? h("p", { class: "about" }, column.description) : h("span", {}),
    here ? h("div", { class: "buttons" }, button("All rows", () => void show(true)), button("What is seen", () => void show(false))) : h("span", {}),
    host,
  ];
}

function drawn(found: Distribution): HTMLElement {
  const { column } = found;
  const when = (value: number): string => new Date(1000 * value).toISOString().slice(0, 16).replace("T", " ");
  const text = column.kind === "time" ? when : (value: number): string => shown(Number(value.toPrecision(6)), column);
  const facts: [string, string][] = [
    ["Rows", count(found.rows)], ["Nulls", count(found.nulls)],
    ...(found.nans ? [["NaN", count(found.nans)] as [string, string]] : []),
    ["Least", shown(found.min, column)], ["Greatest", shown(found.max, column)],
    ...(found.mean !== null ? [["Mean", shown(Number(found.mean.toPrecision(6)))] as [string, string]] : []),
    ...(found.deviation !== null ? [["Standard deviation", shown(Number(found.deviation.toPrecision(4)))] as [string, string]] : []),
  ];
  const most = Math.max(1, ...(found.frequent ?? []).map(({ count: times }) => times));
  return h("div", {},
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    found.histogram ? histogram(found.histogram.edges, found.histogram.counts, `${column.name}${column.unit ? ` (${column.unit})` : ""}`, text) : null,
    found.frequent?.length ? h("table", { class: "dense" }, h("caption", { class: "unseen" }, "Most frequent values"),
      h("tbody", {}, found.frequent.slice(0, 20).map(({ value, count: times }) => {
        const part = h("i", {});
        part.style.width = `${(100 * times) / most}%`;
        return h("tr", {}, h("td", {}, shown(value, column)), h("td", { class: "number" }, count(times)), h("td", {}, h("div", { class: "meter" }, part)));
      }))) : null,
    found.exact ? null : h("p", { class: "quiet" }, "Of a sample of the rows."));
}
