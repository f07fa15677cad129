// One catalog: its map, what is found and chosen on it, and its rows, columns, versions, nights, runs and lineage.
import { address, follow, runPath, sharedAddress } from "./airflow";
import { server, type Answer, type Catalog, type Diff, type FilesChanged, type Increment, type Moment, type Timeline } from "./api";
import { button, fill, h, looking as wait, problem, replace, table } from "./dom";
import { bytes, count, moment, plural, signed } from "./format";
import { lineageOf } from "./lineage";
import { failure, lastRun, mark, since } from "./list";
import { MapPanel } from "./mappanel";
import { copied, linesOf, runOf, sourceOf } from "./parts";
import { named } from "./product";
import { extent } from "./regions";
import { link, note, route } from "./route";
import { found, showRow } from "./rowpanel";
import { RowTable } from "./rowtable";
import { Looking } from "./scope";
import { columnsTab } from "./statistics";
import { calendar, momentWords, nightName, slider } from "./timeline";
import { openForm, type Conf } from "./trigger";

const TABS = ["Versions", "Source", "Rows", "Columns", "Nights", "Runs", "Lineage", "Open it"] as const;
type Tab = (typeof TABS)[number];
const DONE_BY: [string, string][] = [
  ["ingest", "Ingest"], ["adopt", "Adopt"], ["crossmatch", "Cross-match"], ["equijoin", "Join"], ["export", "Export"], ["rollback", "Roll back"],
  ["compact", "Compact"], ["vacuum", "Vacuum"], ["margin", "Margin"], ["index", "Index"], ["verify", "Verify"], ["repair", "Repair"], ["hips", "HiPS"],
];
const OF_ITS_HISTORY: Tab[] = ["Versions", "Nights", "Runs", "Lineage"]; // which a catalog of others has not
const CLOSE = 800; // zoom at which a row that was found is looked at, at least

export async function showCatalog(host: HTMLElement, name: string, version: number | null): Promise<void> {
  const page = new CatalogPage(await server.catalog(name, version));
  replace(host, page.element);
  await page.load();
}

class CatalogPage {
  readonly element: HTMLElement;
  private readonly looking: Looking;
  private readonly map: MapPanel;
  private readonly rows: RowTable;
  private readonly timeline: Promise<Timeline>;
  private readonly sliderPlace = h("div", { class: "sliderplace" });
  private readonly searched = h("div", {});
  private readonly row = h("div", {});
  private readonly side: HTMLElement;
  private readonly body = h("div", { class: "body", role: "tabpanel" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist" });
  private shownVersion: number;

  constructor(private readonly catalog: Catalog) {
    const { state } = route();
    this.shownVersion = catalog.version;
    this.looking = new Looking({ region: state.get("region") ?? "", filters: state.get("filters") ?? "", key: state.get("row") ?? "" });
    this.map = new MapPanel(catalog, this.looking, state);
    this.rows = new RowTable(catalog, this.looking, (key, ra, dec) => {
      this.looking.set({ key });
      this.lookAt(ra, dec, CLOSE);
      this.map.element.scrollIntoView({ block: "nearest" });
    });
    this.timeline = server.timeline(catalog.name);
    this.timeline.catch(() => undefined); // told where it is shown
    this.side = h("aside", { class: "side", "aria-label": "What was found and chosen" }, this.searched, this.row);
    this.looking.onChange((changed) => this.changed(changed));
    this.kept.forEach((tab) => this.tabs.append(button(tab, () => this.show(tab), { role: "tab" })));
    this.element = h("div", { class: "catalog" }, this.head(),
      h("div", { class: "stage" }, h("div", {}, this.map.element, this.sliderPlace), this.side), this.tabs, this.body);
    this.sided();
  }

  // The tabs that there is something for.
  private get kept(): Tab[] {
    const { source } = this.catalog;
    return TABS.filter((tab) => (tab === "Source" ? source : source?.relation !== "read" || !OF_ITS_HISTORY.includes(tab)));
  }

  async load(): Promise<void> {
    const { state } = route();
    const tab = this.kept.find((each) => each.toLowerCase().replace(" ", "-") === state.get("tab")) ?? this.kept[0];
    const key = this.looking.now.key;
    if (key) this.showChosen(key);
    const map = this.map.load();
    this.show(tab);
    void this.addSlider();
    const asked = state.get("search");
    if (asked) void this.search(asked, !state.get("at"));
    await map;
  }

  private head(): HTMLElement {
    const { catalog } = this;
    const { source } = catalog;
    const read = source?.relation === "read";
    const old = catalog.version !== catalog.newest;
    const facts: [string, string | HTMLElement][] = [
      ...(read ? [] : [["Version", `${catalog.version}${old ? ` of ${catalog.newest}` : ""}`] as [string, string]]),
      ["Rows", count(catalog.rows)],
      ["Bytes", bytes(catalog.bytes)],
      ["Partitions", count(catalog.groups.reduce((sum, { leaves }) => sum + leaves, 0))],
      [read ? "Made" : "Published", since(catalog.created)],
      ["Layout", catalog.layout],
      ...(catalog.increments_in_all > 1 ? [["Nights", count(catalog.increments_in_all)] as [string, string]] : []),
      ...(catalog.rows_rejected ? [["Rejected", count(catalog.rows_rejected)] as [string, string]] : []),
      ...(catalog.rows_superseded ? [["Superseded", count(catalog.rows_superseded)] as [string, string]] : []),
      ...(catalog.rows_near_borders ? [["May lack partners", plural(catalog.rows_near_borders, "row")] as [string, string]] : []),
      ...(catalog.indices.length ? [["Indexed", catalog.indices.join(", ")] as [string, string]] : []),
      ...(source ? [["Looked at", since(source.looked_at)] as [string, HTMLElement]] : []),
      ...(read ? [] : [["Last run", lastRun(catalog.last_runs[0] ?? null)] as [string, HTMLElement]]),
    ];
    const dags = DONE_BY.filter(([what]) => what in catalog.dags).map(([what, text]) =>
      button(text, () => void this.trigger(what), { title: catalog.dags[what], "data-does": what }));
    const others = Object.keys(catalog.dags).filter((what) => !DONE_BY.some(([known]) => known === what)).map((what) =>
      button(named(what), () => void this.trigger(what), { title: catalog.dags[what], "data-does": what }));
    const share = button("Copy link", () => void copied(sharedAddress(), this.unseenAddress(), share), { title: "The address of what is shown now" });
    return h("header", {},
      h("div", { class: "crumbs" }, h("a", { href: "#/" }, "All catalogs"), this.searchBox()),
      h("h1", {}, catalog.name, mark(source?.relation), old ? h("span", { class: "old" }, `version ${catalog.version}; `,
        h("a", { href: link([catalog.name]) }, "show the newest")) : null),
      catalog.description ? h("p", { class: "about" }, catalog.description) : null,
      catalog.spec_problem ? h("p", { class: "problem", role: "alert" }, `Its spec: ${catalog.spec_problem}`) : null,
      failure(catalog.last_failed, catalog.last_runs[0] ?? null),
      h("dl", { class: "facts" }, facts.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))),
      h("nav", { class: "actions", "aria-label": "DAGs of this catalog" },
        dags.length || others.length ? h("span", { class: "quiet" }, "Trigger:") : null, dags, others, h("span", { class: "gap" }), share,
        h("a", { class: "button", href: link(["~compare"], { left: catalog.name, left_version: old ? catalog.version : null, right: catalog.name }) }, "Side by side")),
      catalog.attribution ? h("p", { class: "quiet" }, catalog.attribution) : null);
  }

  private unseenAddress(): HTMLElement {
    const place = h("span", { class: "unseen" }, sharedAddress());
    document.body.append(place);
    setTimeout(() => place.remove(), 1000);
    return place;
  }

  private searchBox(): HTMLElement {
    const input = h("input", {
      type: "search", name: "search", class: "wide", spellcheck: false, "aria-label": "Search",
      placeholder: this.catalog.indices.length
        ? `Position, region, or a value of ${this.catalog.indices.join(", ")}` : "Position (56.75 +24.12, 03h47m +24d07m, l b) or region",
      value: route().state.get("search") ?? "",
    });
    return h("form", {
      class: "search", role: "search",
      submit: (event) => {
        event.preventDefault();
        const text = input.value.trim();
        note({ search: text });
        if (text) void this.search(text, true);
        else {
          replace(this.searched);
          this.looking.set({ follows: true });
          this.sided();
        }
      },
    }, input, h("button", { type: "submit" }, "Search"));
  }

  // Looks for something, and goes where it is.
  private async search(text: string, go: boolean): Promise<void> {
    replace(this.searched, h("section", { class: "card" }, wait()));
    this.sided();
    try {
      const answer = await server.search(this.catalog.name, this.catalog.version, text);
      replace(this.searched, found(answer, (place) => this.goTo(place, answer.region)));
      if (answer.kind === "region" && answer.region) this.looking.set({ region: answer.region, follows: false });
      if (!go) return;
      if (answer.places.length) this.goTo(answer.places[0], answer.region);
      else if (answer.region) this.goToRegion(answer.region);
    } catch (error) {
      replace(this.searched, h("section", { class: "card" }, h("h3", {}, "Search"), problem(error)));
    }
  }

  private goTo(place: Answer["places"][number], region: string | null): void {
    if (place.key) this.looking.set({ key: place.key });
    const around = region ? extent(region) : null;
    if (around && !place.key) this.goToRegion(region!);
    else this.lookAt(place.ra, place.dec, place.key ? CLOSE : 60);
  }

  private goToRegion(region: string): void {
    const around = extent(region);
    if (!around) return;
    const [wide, high] = this.map.sky.fieldOfView;
    const zoom = (this.map.sky.looksAt?.zoom ?? 1) * (Math.min(wide, high) / Math.max(around.across, 1e-4)) * 0.7;
    this.map.sky.lookAt(around.ra, around.dec, zoom);
  }

  private lookAt(ra: number, dec: number, atLeast: number): void {
    this.map.sky.lookAt(ra, dec, Math.max(atLeast, this.map.sky.looksAt?.zoom ?? 1));
  }

  private changed(parts: string[]): void {
    const { region, filters, key, follows } = this.looking.now;
    note({ region: follows ? null : region, filters, row: key });
    if (parts.includes("key")) this.showChosen(key);
  }

  private showChosen(key: string): void {
    if (!key) replace(this.row);
    else void showRow(this.row, this.catalog, key, () => this.looking.set({ key: "" })).then(() => this.sided());
    this.sided();
  }

  // The column beside the map is there where something stands in it.
  private sided(): void {
    this.side.hidden = !this.searched.childElementCount && !this.row.childElementCount;
  }

  private async addSlider(): Promise<void> {
    try {
      const timeline = await this.timeline;
      let waiting = 0;
      const made = slider(this.catalog, timeline, (version) => {
        clearTimeout(waiting);
        waiting = window.setTimeout(() => void this.showSky(version), 120);
      }, (version) => {
        clearTimeout(waiting);
        const state = Object.fromEntries(route().state);
        location.hash = link([this.catalog.name], { ...state, version: version === this.catalog.newest ? null : version, row: null });
      });
      replace(this.sliderPlace, made);
    } catch (error) {
      replace(this.sliderPlace, h("p", { class: "quiet" }, `No timeline of its versions: ${(error as Error).message}`));
    }
  }

  private async showSky(version: number): Promise<void> {
    if (version === this.shownVersion) return;
    this.shownVersion = version;
    await this.map.showVersion(version);
  }

  // The form of a DAG of the catalog, with what is looked at filled in.
  private async trigger(what: string): Promise<void> {
    const { catalog } = this;
    const { region, filters, follows } = this.looking.now;
    const versions = await this.timeline.then((timeline) => timeline.versions.map(({ version }) => version)).catch(() => [catalog.newest]);
    const known: Conf = { catalog: catalog.name };
    if (what === "export") {
      if (catalog.version !== catalog.newest) known.version = catalog.version;
      if (region && (!follows || this.map.sky.fieldOfView[0] < 60)) known.region = region;
      if (filters) known.filters = filters;
    }
    if (what === "rollback") known.version = catalog.version !== catalog.newest ? catalog.version : (versions.find((each) => each < catalog.newest) ?? null);
    await openForm(catalog.dags[what], known, { version: versions.map(String), column: catalog.groups.flatMap(({ columns }) => columns.map(({ name }) => name)) });
  }

  private show(tab: Tab): void {
    for (const each of this.tabs.children) each.setAttribute("aria-selected", String(each.textContent === tab));
    note({ tab: tab === this.kept[0] ? null : tab.toLowerCase().replace(" ", "-") });
    const { catalog } = this;
    const makers: Record<Tab, () => Promise<HTMLElement> | HTMLElement> = {
      Versions: () => versions(catalog, this.map, this.timeline),
      Source: () => sourceOf(catalog.source!),
      Rows: () => {
        setTimeout(() => void this.rows.load());
        return this.rows.element;
      },
      Columns: () => columnsTab(catalog, this.looking),
      Nights: () => this.nights(),
      Runs: () => runs(catalog),
      Lineage: () => lineageOf(catalog.name),
      "Open it": () => h("div", {}, linesOf(catalog.lines),
        h("p", { class: "quiet" }, catalog.source?.relation === "read" ? "The lines open what lies there." : "The lines open the newest version.")),
    };
    const place = h("div", {});
    replace(this.body, place);
    const made = makers[tab]();
    if (made instanceof HTMLElement) replace(place, made);
    else void fill(place, made);
  }

  private async nights(): Promise<HTMLElement> {
    const timeline = await this.timeline;
    const last = timeline.last_error;
    return h("div", {},
      last ? h("p", { class: "bad" }, "Last error, ", h("a", { href: address(runPath(last.dag_id, last.run_id)), click: follow }, moment(last.start ?? last.end)),
        last.error ? `: ${last.error}` : "") : null,
      calendar(this.catalog, timeline, (night) => {
        void this.map.showNight(String(night.ordinal)).catch((error: Error) => this.body.prepend(problem(error)));
        this.map.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
      }));
  }
}

async function versions(catalog: Catalog, map: MapPanel, timeline: Promise<Timeline>): Promise<HTMLElement> {
  const found = (await timeline).versions.slice();
  const list = h("div", {});
  const out = h("div", { class: "diff", "aria-live": "polite" });
  const more = button("Older versions", () => void older());
  const compare = (old: number, now: number): void => void openDiff(out, catalog, map, old, now);
  let all = found.length < 200;
  const draw = (): void => {
    replace(list, versionTable(catalog, found, compare));
    more.hidden = all;
  };
  const older = async (): Promise<void> => {
    const further = await server.timeline(catalog.name, found[found.length - 1].version);
    found.push(...further.versions);
    all = !further.versions.length;
    draw();
  };
  draw();
  const numbers = found.map(({ version }) => version);
  return h("div", {}, numbers.length > 1 ? comparer(numbers, compare) : null, out, list, more);
}

function comparer(numbers: number[], compare: (old: number, now: number) => void): HTMLElement {
  const pick = (label: string, chosen: number): [HTMLLabelElement, HTMLSelectElement] => {
    const select = h("select", {}, numbers.map((each) => h("option", { value: each, selected: each === chosen }, String(each))));
    return [h("label", { class: "choice" }, h("span", {}, label), select), select];
  };
  const [oldLabel, old] = pick("Compare version", numbers[1]);
  const [nowLabel, now] = pick("with", numbers[0]);
  return h("form", {
    class: "comparer",
    submit: (event) => {
      event.preventDefault();
      compare(Number(old.value), Number(now.value));
    },
  }, oldLabel, nowLabel, h("button", { type: "submit" }, "Compare"));
}

// Columns of versions that are shown where one has something to say in them.
const CHANGES: [string, (version: Moment) => number | null][] = [
  ["Rows replaced", (version) => version.rows_replaced],
  ["Inserted", (version) => version.inserted],
  ["Updated", (version) => version.updated],
  ["Deleted", (version) => version.deleted],
];

function versionTable(catalog: Catalog, found: Moment[], compare: (old: number, now: number) => void): HTMLElement {
  const numbers = new Set(found.map(({ version }) => version));
  const shown = CHANGES.filter(([, of]) => found.some((each) => of(each) !== null));
  const heads = ["Version", "Published", "What it is", "Rows added", ...shown.map(([head]) => head), "Bytes added", "Rows", "Files", "Write", ""];
  const right = Array.from({ length: shown.length + 4 }, (_, at) => at + 3);
  return table("Versions, newest first", heads, found.map((each) => [
    h("a", { href: link([catalog.name], { version: each.version }) }, String(each.version)),
    since(each.created),
    momentWords(each),
    signed(each.rows_added, count),
    ...shown.map(([, of]) => count(of(each))),
    signed(each.bytes_added, bytes),
    count(each.rows),
    count(each.files),
    h("code", {}, each.write_id),
    each.parent !== null && numbers.has(each.parent)
      ? button("Diff", () => compare(each.parent!, each.version), { "aria-label": `What version ${each.version} changed` })
      : null,
  ]), [0, ...right]);
}

// What a night of a catalog in mode upsert did.
function changes({ inserted, updated, deleted }: Increment): string {
  return inserted == null ? "" : `: ${count(inserted)} inserted, ${count(updated)} updated, ${count(deleted)} deleted`;
}

async function openDiff(out: HTMLElement, catalog: Catalog, map: MapPanel, old: number, now: number): Promise<void> {
  replace(out, h("p", { class: "quiet" }, "Comparing…"));
  try {
    const diff = await server.diff(catalog.name, old, now);
    replace(out, diffText(diff, catalog));
    if (now === catalog.version) {
      for (const group of diff.groups) {
        if (group.name === catalog.groups[0].name) await map.showMoved({ old, group: group.name });
      }
    }
  } catch (error) {
    replace(out, problem(error));
  }
}

function diffText(diff: Diff, catalog: Catalog): HTMLElement {
  const files = [...diff.groups, ...diff.margins.map((margin) => ({ ...margin, name: `margin ${margin.name}` }))];
  const points = [
    ...diff.increments_added.map((each: Increment) => `Increment ${nightName(each)} came with ${plural(each.rows, "row")}${changes(each)}`),
    ...diff.increments_removed.map((each: Increment) => `Increment ${nightName(each)} went with ${plural(each.rows, "row")}`),
    ...diff.columns.map(({ group, name, old, new: now }) =>
      old === null ? `Column ${group}.${name} (${now}) came` : now === null ? `Column ${group}.${name} (${old}) went` : `Column ${group}.${name} was ${old} and is ${now}`),
    ...diff.indices_added.map((column) => `Index of ${column} came`),
    ...diff.indices_removed.map((column) => `Index of ${column} went`),
  ];
  const heads = ["Files of", "Came", "Went", "Stayed", "Rows that came", "Rows that went", "Bytes that came", "Bytes that went"];
  const onMap = diff.new === catalog.version
    ? h("p", { class: "quiet" }, h("i", { class: "key added" }), " came, ", h("i", { class: "key removed" }), " went, ", h("i", { class: "key rewritten" }), " written anew: on the map above")
    : h("p", { class: "quiet" }, h("a", { href: link([catalog.name], { version: diff.new }) }, `Show version ${diff.new}`), " to see where on the map");
  return h("div", {},
    h("h3", {}, `From version ${diff.old} to ${diff.new}: ${signed(diff.rows, count)} rows, ${signed(diff.bytes, bytes)}`),
    points.length ? h("ul", {}, points.map((point) => h("li", {}, point))) : null,
    table("Files", heads, files.map((each: FilesChanged) => [
      each.name, count(each.files_added), count(each.files_removed), count(each.files_kept),
      count(each.rows_added), count(each.rows_removed), bytes(each.bytes_added), bytes(each.bytes_removed),
    ]), [1, 2, 3, 4, 5, 6, 7]),
    onMap,
    h("p", {}, h("a", { href: link(["~compare"], { left: catalog.name, left_version: diff.old, right: catalog.name, right_version: diff.new }) }, "See both versions side by side")));
}

async function runs(catalog: Catalog): Promise<HTMLElement> {
  const all = await server.runs(catalog.name);
  if (!all.length) return h("p", { class: "quiet" }, "Airflow knows no run of its DAGs.");
  return h("div", {}, all.map((run, at) => runOf(run, at === 0)));
}
