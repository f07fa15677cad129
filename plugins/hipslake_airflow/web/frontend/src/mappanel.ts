// The map of a catalog with what is chosen around it: layer, colour, projection, overlays, legend, tooltip.
import { followTheme, theme } from "./airflow";
import { server, type Catalog, type DataColumn, type Layer } from "./api";
import { Cells, type Quantity } from "./cells";
import { ramp, viridis, type ColourScale } from "./colours";
import { Density } from "./density";
import { button, choice, h, replace } from "./dom";
import { arc, bytes, count, degrees, hours, plural, short } from "./format";
import { FRAMES } from "./frames";
import { pixelArea } from "./healpix";
import { OVERLAYS, PALETTES } from "./palette";
import { CENTRES, PROJECTIONS } from "./projections";
import { outlines, regionInSight } from "./regions";
import { note } from "./route";
import { RowLayer, type Shown } from "./rowlayer";
import { Looking } from "./scope";
import { SkyMap, type Overlay, type Pick } from "./sky";
import { shown } from "./values";

type Colour = Quantity | "image";

const COLOURS: [Colour, string][] = [
  ["image", "Density of rows"],
  ["rows", "Rows per partition"],
  ["bytes", "Bytes per partition"],
  ["density", "Mean density of partitions"],
  ["order", "Order of partitions"],
];
const TITLES: Record<Colour, string> = {
  image: "Rows per square degree", rows: "Rows per partition", bytes: "Bytes per partition",
  density: "Rows per square degree, mean of a partition", order: "Order",
};
const KEYS = "Arrows move the map, + and − zoom, 0 shows the whole sky. Enter chooses the cell in the middle, " +
  "Shift and an arrow the one beside it, n and p the next and the one before; Escape chooses none.";
const WHOLE_ORDER = 7; // of the first image of the sky
const WAIT = 250; // milliseconds of rest before rows are asked for

interface Moved {
  old: number;
  group: string;
}

export class MapPanel {
  readonly element: HTMLElement;
  readonly sky: SkyMap;
  readonly layer: RowLayer;
  onKey: (key: string) => void = () => {}; // a row has been chosen
  onView: () => void = () => {}; // the map has come to rest
  private colour: Colour;
  private projection: string;
  private centre: string;
  private of: Layer;
  private ticket = 0; // counts what was asked for, so that late answers are dropped
  private margin = "";
  private increment: string;
  private moved: Overlay[] = [];
  private density: Density | null = null;
  private waiting = 0;
  private readonly legend = h("div", { class: "legend" });
  private readonly rowLegend = h("div", { class: "legend rows", hidden: true });
  private readonly readout = h("output", { class: "readout" });
  private readonly tip = h("div", { class: "tip", hidden: true });
  private readonly live = h("p", { class: "unseen", "aria-live": "polite", role: "status" });
  private readonly note = h("p", { class: "note", hidden: true });
  private readonly drawn = h("p", { class: "note low", hidden: true });
  private readonly frame = h("div", { class: "sky" });
  private scale: ColourScale | null = null;

  constructor(
    private catalog: Catalog, readonly looking: Looking, state: URLSearchParams, private readonly notes: boolean = true,
  ) {
    this.of = { layer: "group", of: catalog.groups[0].name };
    const given = (name: string, among: string[], otherwise: string): string =>
      among.includes(state.get(name) ?? "") ? state.get(name)! : otherwise;
    this.colour = given("colour", COLOURS.map(([colour]) => colour), "image") as Colour;
    this.projection = given("projection", Object.keys(PROJECTIONS), "mollweide");
    this.centre = given("centre", Object.keys(CENTRES), "ra0");
    this.increment = state.get("night") ?? "";
    this.sky = new SkyMap(this.frame, PALETTES[theme()]);
    this.layer = new RowLayer(catalog, this.sky, looking, () => PALETTES[theme()].point);
    this.layer.shown = given("rows", ["auto", "always", "never"], "auto") as Shown;
    this.layer.colourBy = state.get("by") ?? "";
    this.layer.sizeBy = state.get("size") ?? "";
    this.sky.element.setAttribute("aria-label", `Map of ${catalog.name}. ${KEYS}`);
    this.hear();
    const zooms = h("div", { class: "zooms" },
      button("+", () => this.sky.zoomBy(2), { title: "Zoom in (+)", "aria-label": "Zoom in" }),
      button("−", () => this.sky.zoomBy(0.5), { title: "Zoom out (−)", "aria-label": "Zoom out" }));
    const reset = button("Reset view", () => this.sky.reset(), { class: "reset", title: "Show the whole sky (0)" });
    this.frame.append(zooms, reset, this.note, this.drawn, this.tip);
    this.element = h("section", { class: "map", "aria-label": "Sky map" }, this.tools(state), this.frame,
      h("div", { class: "below" }, this.legend, this.rowLegend, this.readout), this.live,
      h("details", { class: "keys quiet" }, h("summary", {}, "By keyboard"), KEYS));
    Object.assign(this.element, { sky: this.sky }); // for who measures it
    if (this.projection !== "mollweide" || this.centre !== "ra0") this.sky.project(this.projection, this.centre);
    if (state.get("grid")) this.sky.showGrid(state.get("grid")!);
    if (state.get("borders") === "no") this.sky.showBorders(false);
    const at = (state.get("at") ?? "").split(",").map(Number);
    if (at.length === 3 && at.every(Number.isFinite)) this.sky.startAt(at[0], at[1], at[2]);
    this.tell(null);
    looking.onChange((changed) => {
      if (changed.includes("filters")) this.layer.again();
      if (changed.includes("key")) this.sky.markPoint(this.layer.rows?.keys.indexOf(looking.now.key) ?? -1);
      if (changed.includes("region") || changed.includes("follows")) this.outline();
    });
    this.outline();
  }

  private hear(): void {
    this.sky.onHover = (pick) => this.hover(pick);
    this.sky.onChoose = (pick) => {
      this.tell(pick);
      this.live.textContent = pick ? this.words(pick).join(". ") : "Nothing chosen";
      const key = pick && pick.point >= 0 ? this.layer.rows?.keys[pick.point] : undefined;
      if (key) {
        this.looking.set({ key });
        this.onKey(key);
      }
    };
    this.sky.onScale = (scale) => {
      this.scale = scale;
      this.showLegend();
    };
    this.sky.onRest = () => this.rested();
    this.layer.onTold = (text) => {
      this.drawn.textContent = text;
      this.drawn.hidden = !text;
      this.element.dataset.rows = String(this.layer.rows?.rows ?? 0);
    };
    this.layer.onLegend = (legend) => this.showRowLegend(legend);
    followTheme((now) => {
      this.sky.dress(PALETTES[now]);
      this.layer.redraw();
      this.showLegend();
    });
  }

  // Asks for what is shown: first for the image of the sky, which is quick, then for the partitions.
  async load(): Promise<void> {
    const ticket = ++this.ticket;
    this.say("Looking…");
    delete this.element.dataset.ready;
    const image = this.loadImage(ticket);
    if (this.colour === "image") await image;
    await this.loadCells(ticket);
    await image;
  }

  // Shows another version without anything else of the page.
  async showVersion(version: number): Promise<void> {
    this.catalog = { ...this.catalog, version };
    this.moved = [];
    await this.load();
  }

  private async loadImage(ticket: number): Promise<void> {
    const { name, version } = this.catalog;
    const density = new Density({
      below: WHOLE_ORDER,
      whole: () => server.density(name, version, WHOLE_ORDER),
      tile: (order, npix) => server.densityTile(name, version, order, npix, WHOLE_ORDER),
    });
    try {
      await density.load();
    } catch (error) {
      if (ticket !== this.ticket) return;
      if (this.colour === "image") this.say(`No image of the density: ${(error as Error).message}`);
      this.density = null;
      this.sky.showDensity(null, false);
      if (this.colour === "image") this.colour = "density";
      return;
    }
    if (ticket !== this.ticket) return;
    this.density = density;
    this.sky.showDensity(density, this.colour === "image");
    this.say("");
    this.element.dataset.painted = String(version);
  }

  private async loadCells(ticket: number): Promise<void> {
    const { name, version } = this.catalog;
    const layer = this.of;
    try {
      const cells = await server.cells(name, version, layer);
      if (ticket !== this.ticket) return;
      const tiles = (order: number, npix: number): Promise<Cells> => server.tile(name, version, layer, order, npix);
      this.sky.show(cells, this.quantity(), layer.layer === "group" ? tiles : null);
      const { partitions } = cells.columns.totals;
      this.say(this.colour !== "image" && partitions > cells.length
        ? `${count(partitions)} partitions in ${count(cells.length)} cells; zoom in to tell them apart` : "");
      this.element.dataset.ready = String(cells.length);
      await this.layOver();
    } catch (error) {
      if (ticket === this.ticket) this.say((error as Error).message);
    }
  }

  private quantity(): Quantity {
    return this.colour === "image" ? "density" : this.colour;
  }

  // Lays the files that a version brought and took over the map, which is grey below them.
  async showMoved({ old, group }: Moved): Promise<void> {
    const { name, version } = this.catalog;
    const [removed, added] = await Promise.all(
      (["removed", "added"] as const).map((layer) => server.cells(name, version, { layer, of: group, since: old })),
    );
    const [went, came, rewritten] = parted(removed, added);
    this.moved = [
      { cells: rewritten, colour: OVERLAYS.rewritten, filled: true },
      { cells: went, colour: OVERLAYS.removed, filled: true, dashed: true },
      { cells: came, colour: OVERLAYS.added, filled: true },
    ].filter(({ cells }) => cells.length);
    await this.layOver();
    this.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  // Shows where the rows of a night lie; "" shows no night.
  async showNight(ordinal: string): Promise<void> {
    this.increment = ordinal;
    this.noted({ night: ordinal });
    const select = this.element.querySelector<HTMLSelectElement>("select[name=night]");
    if (select) select.value = ordinal;
    await this.layOver();
  }

  private async layOver(): Promise<void> {
    const { name, version } = this.catalog;
    const overlays: Overlay[] = [];
    if (this.margin) {
      const cells = await server.cells(name, version, { layer: "margin", of: this.margin });
      overlays.push({ cells, colour: OVERLAYS.margin, filled: false });
    }
    if (this.increment) {
      const cells = await server.cells(name, version, { layer: "increment", of: this.increment });
      overlays.push({ cells, colour: OVERLAYS.increment, filled: true });
    }
    this.sky.lay([...overlays, ...this.moved], Boolean(this.increment || this.moved.length));
    this.showLegend();
  }

  private tools(state: URLSearchParams): HTMLElement {
    const { groups, margins, increments } = this.catalog;
    const tools = h("div", { class: "tools", role: "group", "aria-label": "What the map shows" });
    if (groups.length > 1) {
      const options = groups.map(({ name }): [string, string] => [name, name]);
      tools.append(choice("Partitions of group", options, this.of.of, (of) => {
        this.of = { layer: "group", of };
        void this.load();
      }));
    }
    tools.append(
      choice("Colour", COLOURS, this.colour, (value) => {
        this.colour = value as Colour;
        this.noted({ colour: value === "image" ? null : value });
        this.sky.showDensity(this.density, this.colour === "image");
        if (this.colour !== "image") this.sky.colourBy(this.colour);
        this.showLegend();
      }),
      choice("Projection", named(PROJECTIONS), this.projection, (value) => {
        this.projection = value;
        this.noted({ projection: value === "mollweide" ? null : value });
        this.sky.project(this.projection, this.centre);
      }),
      choice("Centre", named(CENTRES), this.centre, (value) => {
        this.centre = value;
        this.noted({ centre: value === "ra0" ? null : value });
        this.sky.project(this.projection, this.centre);
      }),
      choice("Grid", [...named(FRAMES), ["none", "None"]], state.get("grid") ?? "equatorial", (value) => {
        this.noted({ grid: value === "equatorial" ? null : value });
        this.sky.showGrid(value);
      }),
    );
    if (margins.length) {
      const options = margins.map(({ name, radius_arcsec }): [string, string] => [name, `${radius_arcsec}″`]);
      tools.append(choice("Margin over it", [["", "None"], ...options], "", (value) => {
        this.margin = value;
        void this.layOver();
      }));
    }
    if (increments.some(({ key }) => key !== null)) {
      const options = [...increments].sort((one, other) => (one.key ?? "") < (other.key ?? "") ? 1 : -1)
        .map((each): [string, string] => [String(each.ordinal), each.key?.slice(0, 16).replace("T", " ").replace(" 00:00", "") ?? `#${each.ordinal}`]);
      const select = choice("Night over it", [["", "None"], ...options], this.increment, (value) => void this.showNight(value));
      select.querySelector("select")!.name = "night";
      tools.append(select);
    }
    tools.append(...this.rowTools());
    const borders = h("input", {
      type: "checkbox", checked: state.get("borders") !== "no",
      change: () => {
        this.noted({ borders: borders.checked ? null : "no" });
        this.sky.showBorders(borders.checked);
      },
    });
    tools.append(h("label", { class: "check" }, borders, " Partitions"));
    return tools;
  }

  private rowTools(): HTMLElement[] {
    const columns = this.catalog.groups.flatMap((group) => group.columns);
    const numeric = columns.filter(({ type }) => /^(u?int|float|double|decimal|halffloat)/.test(type));
    const options: [string, string][] = [["", "–"], ...numeric.map(({ name }): [string, string] => [name, name])];
    return [
      choice("Rows", [["auto", "When few"], ["always", "Always"], ["never", "Never"]], this.layer.shown, (value) => {
        this.layer.shown = value as Shown;
        this.noted({ rows: value === "auto" ? null : value });
        this.layer.again();
      }),
      choice("Row colour", options, this.layer.colourBy, (value) => {
        this.layer.colourBy = value;
        this.noted({ by: value });
        this.layer.again();
      }),
      choice("Row size", options, this.layer.sizeBy, (value) => {
        this.layer.sizeBy = value;
        this.noted({ size: value });
        this.layer.again();
      }),
    ];
  }

  private noted(changed: Record<string, string | number | null>): void {
    if (this.notes) note(changed);
  }

  private rested(): void {
    const at = this.sky.looksAt;
    const digits = at ? Math.max(2, Math.ceil(Math.log10(at.zoom)) + 2) : 0;
    if (this.density || this.colour !== "image") this.noted({ at: at && at.zoom > 1.001 ? `${at.ra.toFixed(digits)},${at.dec.toFixed(digits)},${Number(at.zoom.toPrecision(5))}` : null });
    clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => {
      if (this.looking.now.follows) this.looking.set({ region: regionInSight(this.sky) });
      void this.layer.refresh();
      this.onView();
    }, WAIT);
  }

  private outline(): void {
    const { region, follows } = this.looking.now;
    this.sky.showOutlines(follows ? [] : outlines(region));
  }

  private say(text: string): void {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  private showLegend(): void {
    const { scale } = this;
    if (!scale) return;
    const swatch = (colour: string, text: string, kind = ""): HTMLElement => {
      const box = h("i", { class: kind });
      if (colour) box.style.background = colour;
      return h("span", { class: "swatch" }, box, text);
    };
    const over: HTMLElement[] = [];
    const has = (colour: string): boolean => this.moved.some((each) => each.colour === colour);
    if (has(OVERLAYS.added)) over.push(swatch(OVERLAYS.added, "files that came"));
    if (has(OVERLAYS.removed)) over.push(swatch(OVERLAYS.removed, "files that went"));
    if (has(OVERLAYS.rewritten)) over.push(swatch(OVERLAYS.rewritten, "files written anew"));
    if (this.increment) over.push(swatch(OVERLAYS.increment, "rows of the night"));
    if (this.margin) over.push(swatch("", "margin", "ring"));
    const empty = h("div", { class: "swatches" }, over,
      swatch("", this.colour === "image" ? "no rows" : "no partition", "hatch"), swatch("", "galactic plane", "dashes"));
    const colours = this.sky.isMuted ? ramp(PALETTES[theme()].muted, scale.colours.length) : scale.colours;
    if (scale.labels) {
      const swatches = scale.labels.map((label, at) => swatch(colours[at], label));
      replace(this.legend, h("span", { class: "title" }, TITLES[this.colour]), h("div", { class: "swatches" }, swatches, empty));
      return;
    }
    const text = this.colour === "bytes" ? bytes : short;
    replace(this.legend, h("span", { class: "title" }, TITLES[this.colour]), bar(colours, scale.ticks, text), empty);
  }

  private showRowLegend(legend: { column: DataColumn; least: number; most: number } | null): void {
    this.rowLegend.hidden = !legend;
    if (!legend) return;
    const { column, least, most } = legend;
    const colours = Array.from({ length: 24 }, (_, at) => viridis(at / 23));
    const ticks = [0, 0.5, 1].map((at) => ({ at, value: least + at * (most - least) }));
    replace(this.rowLegend, h("span", { class: "title" }, `Rows: ${column.name}${column.unit ? ` (${column.unit})` : ""}`),
      bar(colours, ticks, (value) => shown(Number(value.toPrecision(4)))));
  }

  private hover(pick: Pick | null): void {
    this.tip.hidden = !pick;
    if (!pick) return;
    const at = this.sky.pointedAt!;
    replace(this.tip, this.described(pick));
    const { clientWidth, clientHeight } = this.frame;
    const { offsetWidth, offsetHeight } = this.tip;
    const left = at[0] + 18 + offsetWidth < clientWidth ? at[0] + 18 : at[0] - 14 - offsetWidth;
    const top = at[1] + 18 + offsetHeight < clientHeight ? at[1] + 18 : at[1] - 12 - offsetHeight;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, top)}px`;
  }

  private tell(pick: Pick | null): void {
    replace(this.readout, pick ? this.described(pick) : h("span", { class: "quiet" }, "Point at the sky, or choose a cell"));
  }

  private described(pick: Pick): HTMLElement[] {
    const [l, b] = FRAMES.galactic.from(pick.ra, pick.dec);
    const [first, ...rest] = this.words(pick);
    const lines = [
      h("span", { class: "where" }, `${hours(pick.ra)}  ${arc(pick.dec)}`),
      h("span", { class: "quiet where" }, `RA ${degrees(pick.ra)}  Dec ${degrees(pick.dec)}  l ${degrees(l, 2)}  b ${degrees(b, 2)}`),
    ];
    if (pick.point >= 0) {
      lines.push(...this.layer.words(pick.point).map((text) => h("strong", {}, text)), h("span", { class: "quiet" }, "Click for the whole row"));
      return lines;
    }
    const found = this.sky.densityAt(pick.ra, pick.dec);
    if (found) lines.push(h("span", {}, found.rows ? `${short(found.density)} rows per square degree here` : "No rows here", h("span", { class: "quiet" }, ` (order ${found.order})`)));
    lines.push(h("strong", {}, first), h("span", {}, rest.join(" · ")));
    return lines;
  }

  private words(pick: Pick): string[] {
    if (!pick.cells || pick.at < 0) return ["No partition here"];
    const { order, npix, rows, bytes: sizes, partitions, files, finest, filled } = pick.cells.columns;
    const at = pick.at;
    const words = [`Order ${order[at]}, pixel ${count(npix[at])}`, plural(rows[at], "row")];
    if (sizes[at]) words.push(bytes(sizes[at]));
    if (partitions[at] > 1) words.push(`${plural(partitions[at], "partition")} of orders up to ${finest[at]}`);
    else if (files[at] > 1) words.push(plural(files[at], "file"));
    words.push(`${short(rows[at] / (pixelArea(order[at]) * filled[at]))} rows per square degree in the mean`);
    return words;
  }
}

// Cells that went, that came, and that did both.
function parted(removed: Cells, added: Cells): [Cells, Cells, Cells] {
  const keys = (cells: Cells): string[] => cells.columns.order.map((order, at) => `${order}/${cells.columns.npix[at]}`);
  const [went, came] = [keys(removed), keys(added)];
  const [wentSet, cameSet] = [new Set(went), new Set(came)];
  return [
    some(removed, (at) => !cameSet.has(went[at])),
    some(added, (at) => !wentSet.has(came[at])),
    some(added, (at) => wentSet.has(came[at])),
  ];
}

function some(cells: Cells, wanted: (at: number) => boolean): Cells {
  const kept = cells.columns.order.map((_, at) => at).filter(wanted);
  const { totals, ...columns } = cells.columns;
  const picked = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, kept.map((at) => (values as number[])[at])]));
  return new Cells({ totals, ...picked } as Cells["columns"]);
}

function bar(colours: string[], ticks: { at: number; value: number }[], text: (value: number) => string): HTMLElement {
  const made = h("div", { class: "bar" });
  made.style.background = `linear-gradient(to right, ${colours.join(",")})`;
  return h("div", { class: "scale" }, made, h("div", { class: "ticks" }, apart(ticks).map(({ at, value }) => {
    const tick = h("span", {}, text(value));
    tick.style.left = `${100 * at}%`;
    return tick;
  })));
}

function named(kinds: Record<string, { name: string }>): [string, string][] {
  return Object.entries(kinds).map(([key, { name }]) => [key, name]);
}

// Ticks that have room beside each other.
function apart(ticks: { at: number; value: number }[]): { at: number; value: number }[] {
  const kept: { at: number; value: number }[] = [];
  for (const tick of ticks) {
    if (!kept.length || tick.at - kept[kept.length - 1].at > 0.13) kept.push(tick);
  }
  return kept;
}

