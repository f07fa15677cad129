// The map of a catalog with what is chosen around it: layer, colour, projection, overlays, legend, readout.
import { followTheme, theme } from "./airflow";
import { server, type Catalog, type Layer } from "./api";
import type { Cells, Quantity } from "./cells";
import type { ColourScale } from "./colours";
import { button, choice, h, replace } from "./dom";
import { arc, bytes, count, degrees, hours, plural, short } from "./format";
import { pixelArea } from "./healpix";
import { OVERLAYS, PALETTES } from "./palette";
import { CENTRES, PROJECTIONS, toGalactic } from "./projections";
import { SkyMap, type Overlay, type Pick } from "./sky";

const QUANTITIES: [Quantity, string][] = [
  ["rows", "Rows per partition"],
  ["bytes", "Bytes per partition"],
  ["density", "Rows per square degree"],
  ["order", "Order"],
];
const KEYS = "Arrows move the map, + and − zoom, 0 shows the whole sky. Enter chooses the cell in the middle, " +
  "Shift and an arrow the one beside it, n and p the next and the one before; Escape chooses none.";

export class MapPanel {
  readonly element: HTMLElement;
  readonly sky: SkyMap;
  private quantity: Quantity = "rows";
  private projection = "mollweide";
  private centre = "ra0";
  private layer: Layer;
  private shown = 0; // counts what was asked for, so that late answers are dropped
  private margin = "";
  private increment = "";
  private extra: Overlay[] = [];
  private readonly legend = h("div", { class: "legend" });
  private readonly readout = h("output", { class: "readout" });
  private readonly live = h("p", { class: "unseen", "aria-live": "polite", role: "status" });
  private readonly note = h("p", { class: "note", hidden: true });
  private chosen: Pick | null = null;

  constructor(private readonly catalog: Catalog) {
    this.layer = { layer: "group", of: catalog.groups[0].name };
    const frame = h("div", { class: "sky" });
    this.sky = new SkyMap(frame, PALETTES[theme()]);
    this.sky.element.setAttribute("aria-label", `Map of ${catalog.name}. ${KEYS}`);
    this.sky.onHover = (pick) => this.tell(pick ?? this.chosen);
    this.sky.onChoose = (pick) => {
      this.chosen = pick;
      this.tell(pick);
      this.live.textContent = pick ? this.words(pick).join(". ") : "Nothing chosen";
    };
    this.sky.onScale = (scale) => this.showLegend(scale);
    followTheme((now) => this.sky.dress(PALETTES[now]));
    const zooms = h("div", { class: "zooms" },
      button("+", () => this.sky.zoomBy(2), { title: "Zoom in (+)", "aria-label": "Zoom in" }),
      button("−", () => this.sky.zoomBy(0.5), { title: "Zoom out (−)", "aria-label": "Zoom out" }),
      button("0", () => this.sky.reset(), { title: "Whole sky (0)", "aria-label": "Whole sky" }));
    frame.append(zooms, this.note);
    this.element = h("section", { class: "map", "aria-label": "Sky map" }, this.tools(), frame,
      h("div", { class: "below" }, this.legend, this.readout), this.live,
      h("p", { class: "quiet keys" }, KEYS));
    Object.assign(this.element, { sky: this.sky }); // for who measures it
    this.tell(null);
  }

  // Asks for the cells of what is chosen, and shows them.
  async load(): Promise<void> {
    const { name, version } = this.catalog;
    const layer = this.layer;
    const ticket = ++this.shown;
    this.say("Looking…");
    try {
      const cells = await server.cells(name, version, layer);
      if (ticket !== this.shown) return;
      const tiles = (order: number, npix: number): Promise<Cells> => server.tile(name, version, layer, order, npix);
      this.sky.show(cells, this.quantity, layer.layer === "group" ? tiles : null);
      const { partitions } = cells.columns.totals;
      this.say(partitions > cells.length ? `${count(partitions)} partitions in ${count(cells.length)} cells; zoom in to tell them apart` : "");
      this.element.dataset.ready = String(cells.length);
      await this.layOver();
    } catch (error) {
      if (ticket === this.shown) this.say((error as Error).message);
    }
  }

  // Lays cells of a diff over the map.
  async showMoved(old: number, group: string): Promise<void> {
    const { name, version } = this.catalog;
    const [removed, added] = await Promise.all(
      (["removed", "added"] as const).map((layer) => server.cells(name, version, { layer, of: group, since: old })),
    );
    this.extra = [
      { cells: removed, colour: OVERLAYS.removed, filled: false, dashed: true },
      { cells: added, colour: OVERLAYS.added, filled: true },
    ];
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
    this.sky.lay([...overlays, ...this.extra]);
  }

  private tools(): HTMLElement {
    const { groups, margins, increments } = this.catalog;
    const tools = h("div", { class: "tools", role: "group", "aria-label": "What the map shows" });
    if (groups.length > 1) {
      const options = groups.map(({ name }): [string, string] => [name, name]);
      tools.append(choice("Column group", options, this.layer.of, (of) => {
        this.layer = { layer: "group", of };
        void this.load();
      }));
    }
    tools.append(
      choice("Colour", QUANTITIES, this.quantity, (value) => {
        this.quantity = value as Quantity;
        this.sky.colourBy(this.quantity);
      }),
      choice("Projection", named(PROJECTIONS), this.projection, (value) => {
        this.projection = value;
        this.sky.project(this.projection, this.centre);
      }),
      choice("Centre", named(CENTRES), this.centre, (value) => {
        this.centre = value;
        this.sky.project(this.projection, this.centre);
      }),
    );
    if (margins.length) {
      const options = margins.map(({ name, radius_arcsec }): [string, string] => [name, `${radius_arcsec}″`]);
      tools.append(choice("Margin over it", [["", "none"], ...options], "", (value) => {
        this.margin = value;
        void this.layOver();
      }));
    }
    if (increments.length > 1) {
      const options = increments.map((each): [string, string] => [String(each.ordinal), each.key?.slice(0, 10) ?? `#${each.ordinal}`]);
      tools.append(choice("Increment over it", [["", "none"], ...options], "", (value) => {
        this.increment = value;
        void this.layOver();
      }));
    }
    return tools;
  }

  private say(text: string): void {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  private showLegend(scale: ColourScale): void {
    const name = QUANTITIES.find(([quantity]) => quantity === this.quantity)![1];
    const empty = h("div", { class: "swatches" },
      h("span", { class: "swatch" }, h("i", { class: "hatch" }), "no partition"),
      h("span", { class: "swatch" }, h("i", { class: "dashes" }), "galactic plane"));
    if (scale.labels) {
      const swatches = scale.labels.map((label, at) => {
        const box = h("i", {});
        box.style.background = scale.colours[at];
        return h("span", { class: "swatch" }, box, label);
      });
      replace(this.legend, h("span", { class: "title" }, name), h("div", { class: "swatches" }, swatches, empty));
      return;
    }
    const bar = h("div", { class: "bar" });
    bar.style.background = `linear-gradient(to right, ${scale.colours.join(",")})`;
    const text = this.quantity === "bytes" ? bytes : short;
    const ticks = apart(scale.ticks).map(({ at, value }) => {
      const tick = h("span", {}, text(value));
      tick.style.left = `${100 * at}%`;
      return tick;
    });
    replace(this.legend, h("span", { class: "title" }, name),
      h("div", { class: "scale" }, bar, h("div", { class: "ticks" }, ticks)), empty);
  }

  private tell(pick: Pick | null): void {
    if (!pick) {
      replace(this.readout, h("span", { class: "quiet" }, "Point at the sky"));
      return;
    }
    const [cell, ...rest] = this.words(pick);
    const [l, b] = toGalactic(pick.ra, pick.dec);
    replace(this.readout,
      h("span", { class: "where" }, `${hours(pick.ra)}  ${arc(pick.dec)}`),
      h("span", { class: "quiet where" }, `RA ${degrees(pick.ra)}  Dec ${degrees(pick.dec)}  l ${degrees(l, 2)}  b ${degrees(b, 2)}`),
      h("strong", {}, cell), h("span", {}, rest.join(" · ")));
  }

  private words(pick: Pick): string[] {
    if (!pick.cells || pick.at < 0) return ["No partition here"];
    const { order, npix, rows, bytes: sizes, partitions, files, finest, filled } = pick.cells.columns;
    const at = pick.at;
    const words = [`Order ${order[at]}, pixel ${count(npix[at])}`, plural(rows[at], "row")];
    if (sizes[at]) words.push(bytes(sizes[at]));
    if (partitions[at] > 1) words.push(`${plural(partitions[at], "partition")} of orders up to ${finest[at]}`);
    else if (files[at] > 1) words.push(plural(files[at], "file"));
    words.push(`${short(rows[at] / (pixelArea(order[at]) * filled[at]))} rows per square degree`);
    return words;
  }
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
