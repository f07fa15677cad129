// The rows of what is looked at, as a table: filter, columns, order, and the file of them.
import { openForm } from "./trigger";
import { downloadPath, Refused, server, type Catalog, type DataColumn, type Rows } from "./api";
import { button, choice, h, problem, replace } from "./dom";
import { count } from "./format";
import type { Looking } from "./scope";
import { isNumeric, shown } from "./values";

const FORMATS: [string, string][] = [["parquet", "Parquet"], ["csv", "CSV"], ["fits", "FITS"], ["votable", "VOTable"]];
const SHOWN_FIRST = 10;

export class RowTable {
  readonly element: HTMLElement;
  private columns: string[];
  private limit = 100;
  private sort = "";
  private descending = false;
  private asked: AbortController | null = null;
  private readonly body = h("div", { class: "rows", "aria-live": "polite" });
  private readonly said = h("p", { class: "quiet" });
  private readonly about = h("div", {});
  private readonly where = h("span", { class: "quiet" });

  constructor(
    private readonly catalog: Catalog, private readonly looking: Looking, private readonly choose: (key: string, ra: number, dec: number) => void,
  ) {
    const all = catalog.groups.flatMap((group) => group.columns);
    this.columns = all.filter(({ type, name }) => !/^(list|struct|large_list|map)/.test(type) && !name.startsWith("_healpix")).slice(0, SHOWN_FIRST).map(({ name }) => name);
    const filters = h("input", {
      type: "search", class: "wide", name: "filters", value: looking.now.filters, spellcheck: false,
      placeholder: "Filter, such as phot_g_mean_mag < 12 and parallax is not null", "aria-label": "Filter",
    });
    const region = h("input", {
      type: "search", class: "wide", name: "region", value: looking.now.follows ? "" : looking.now.region, spellcheck: false,
      placeholder: "What the map shows; or cone 56.75 24.1 1deg, box ra 50..60 dec 20..30", "aria-label": "Region",
    });
    const form = h("form", {
      class: "tools grow",
      submit: (event) => {
        event.preventDefault();
        const text = region.value.trim();
        looking.set({ filters: filters.value.trim(), follows: !text, ...(text ? { region: text } : {}) });
        void this.load();
      },
    },
    h("label", { class: "choice grow" }, h("span", {}, "Filter"), filters),
    h("label", { class: "choice grow" }, h("span", {}, "Region"), region),
    h("button", { type: "submit", class: "main" }, "Show"));
    looking.onChange((changed) => {
      if (changed.includes("region") || changed.includes("follows")) region.value = looking.now.follows ? "" : looking.now.region;
      if (changed.includes("filters")) filters.value = looking.now.filters;
      if (this.element.isConnected && !changed.every((part) => part === "key")) void this.load();
      this.mark();
    });
    this.element = h("div", { class: "rowtable" }, form,
      h("div", { class: "tools" },
        this.picker(all.map(({ name }) => name)),
        choice("At most", [["100", "100 rows"], ["1000", "1,000 rows"], ["10000", "10,000 rows"]], "100", (value) => {
          this.limit = Number(value);
          void this.load();
        }),
        h("div", { class: "choice" }, h("span", {}, "Download what is seen"), h("div", { class: "buttons" }, FORMATS.map(([format, text]) =>
          button(text, () => void this.download(format), { "data-format": format }))))),
      this.about, h("p", {}, this.where), this.said, this.body);
  }

  async load(): Promise<void> {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const { region, filters, follows } = this.looking.now;
    this.where.textContent = region ? `${follows ? "What the map shows" : "The region"}: ${region.length > 120 ? `${region.slice(0, 120)}…` : region}` : "All of the sky";
    this.said.textContent = "Looking…";
    try {
      const rows = await server.rows(this.catalog.name, this.catalog.version, {
        region, filters, columns: this.columns, limit: this.limit, sort: this.sort, descending: this.descending,
      }, asked.signal);
      if (asked.signal.aborted) return;
      this.said.textContent = told(rows);
      replace(this.body, this.table(rows));
      this.element.dataset.rows = String(rows.rows);
      this.mark();
    } catch (error) {
      if (asked.signal.aborted) return;
      this.said.textContent = "";
      replace(this.body, problem(error));
    }
  }

  private table(rows: Rows): HTMLElement {
    if (!rows.rows) return h("p", { class: "quiet" }, "No row.");
    const head = (column: DataColumn): HTMLElement => {
      const sorted = this.sort === column.name;
      return h("th", { scope: "col", class: isNumeric(column) ? "number" : null, "aria-sort": sorted ? (this.descending ? "descending" : "ascending") : null },
        button(`${column.name}${sorted ? (this.descending ? " ↓" : " ↑") : ""}`, () => this.sortBy(column.name), { class: "plain", title: column.description ?? "Sort" }),
        column.unit ? h("span", { class: "unit" }, column.unit) : null);
    };
    return h("div", { class: "scroll tall" }, h("table", { class: "dense" }, h("caption", { class: "unseen" }, "Rows"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), rows.columns.map(head))),
      h("tbody", {}, rows.keys.map((key, at) => h("tr", { "data-key": key },
        h("td", {}, button("Show", () => this.choose(key, rows.ra[at], rows.dec[at]), { class: "plain", "aria-label": `Show row ${at + 1} on the map` })),
        rows.columns.map((column, index) => h("td", { class: isNumeric(column) ? "number" : null }, shown(rows.data[index][at], column))))))));
  }

  private mark(): void {
    for (const line of this.body.querySelectorAll<HTMLElement>("tr[data-key]")) {
      line.classList.toggle("chosen", line.dataset.key === this.looking.now.key);
    }
  }

  private sortBy(column: string): void {
    this.descending = this.sort === column && !this.descending;
    this.sort = column;
    void this.load();
  }

  private picker(all: string[]): HTMLElement {
    const boxes = all.map((name): [string, HTMLInputElement, HTMLElement] => {
      const box = h("input", { type: "checkbox", checked: this.columns.includes(name) });
      return [name, box, h("label", { class: "check" }, box, ` ${name}`)];
    });
    const find = h("input", {
      type: "search", placeholder: "Find", "aria-label": "Find a column",
      input: () => {
        for (const [name, , label] of boxes) label.hidden = !name.toLowerCase().includes(find.value.toLowerCase());
      },
    });
    const apply = (): void => {
      this.columns = boxes.filter(([, box]) => box.checked).map(([name]) => name);
      void this.load();
    };
    const each = (checked: boolean): void => {
      for (const [, box, label] of boxes) if (!label.hidden) box.checked = checked;
      apply();
    };
    return h("details", { class: "picker" }, h("summary", { class: "button" }, "Columns"), h("div", { class: "card", change: (event) => {
      if (event.target !== find) apply();
    } }, find, h("div", { class: "buttons" }, button("All", () => each(true)), button("None", () => each(false))),
    h("div", { class: "scroll tall" }, boxes.map(([, , label]) => label))));
  }

  private async download(format: string): Promise<void> {
    const { region, filters } = this.looking.now;
    replace(this.about, h("p", { class: "quiet" }, "Preparing the file…"));
    try {
      const { data, name } = await server.download(downloadPath(this.catalog.name, this.catalog.version, format, { region, filters, columns: this.columns }));
      const address = URL.createObjectURL(data);
      const file = h("a", { href: address, download: name });
      document.body.append(file);
      file.click();
      file.remove();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      replace(this.about, h("p", { class: "quiet", role: "status" }, `${name} is downloaded.`));
    } catch (error) {
      const told = error instanceof Refused && error.status === 413 ? (error.told as { dag?: string; conf?: Record<string, unknown> }) : null;
      replace(this.about, problem(error), told?.dag
        ? button("Export it by a DAG instead", () => void openForm(told.dag!, told.conf ?? {}), { class: "main" }) : null);
    }
  }
}

function told(rows: Rows): string {
  if (!rows.truncated) return `${count(rows.rows)} row${rows.rows === 1 ? "" : "s"}`;
  const all = rows.total !== null ? `of ${count(rows.total)}` : rows.estimate !== null && rows.estimate > rows.rows ? `of about ${count(rows.estimate)}` : "of more";
  const why = rows.why === "time" ? "; the time for looking was over" : rows.why === "bytes" ? "; more bytes than are read for a page" : "";
  return `${count(rows.rows)} ${all} rows${why}`;
}
