// Beside the map: what a search found, and the row that is chosen, with its light curves.
import { server, type Answer, type Catalog, type Curve, type CurveOffer, type Row } from "./api";
import { roomy, scatter, SERIES, type Series } from "./chart";
import { button, choice, fill, h, problem, replace } from "./dom";
import { arc, hours, plural } from "./format";
import { asNumber, isNumeric, shown } from "./values";

// What a search understood, and the places that it found.
export function found(answer: Answer, go: (place: Answer["places"][number]) => void): HTMLElement {
  const many = answer.places.length > 1 || answer.kind === "value";
  return h("section", { class: "card", "aria-live": "polite" },
    h("h3", {}, "Search"), h("p", {}, answer.understood),
    many ? h("ul", { class: "places" }, answer.places.map((place) =>
      h("li", {}, button(place.label || `${hours(place.ra)} ${arc(place.dec)}`, () => go(place), { class: "plain" })))) : null,
    answer.truncated ? h("p", { class: "quiet" }, "There are more than these.") : null);
}

export function showRow(host: HTMLElement, catalog: Catalog, key: string, close: () => void): Promise<void> {
  return fill(host, server.row(catalog.name, catalog.version, key).then((row) => rowCard(catalog, row, close)));
}

function rowCard(catalog: Catalog, row: Row, close: () => void): HTMLElement {
  const curves = row.light_curves.map((offer) => {
    const body = h("div", { class: "curve" });
    void server.curve(catalog.name, row.version, row.key, offer)
      .then((curve) => replace(body, curvePanel(curve, offer)))
      .catch((error: Error) => replace(body, problem(error)));
    return h("section", {}, h("h4", {}, `Light curve: ${offer.column ?? offer.catalog ?? ""}`), body);
  });
  const lines = row.columns.map((column, at): [string, HTMLElement] => [
    column.name,
    h("tr", {},
      h("th", { scope: "row", title: [column.description, column.ucd].filter(Boolean).join(" · ") || null }, column.name),
      h("td", { class: isNumeric(column) ? "number" : null }, shown(row.values[at], column)),
      h("td", { class: "quiet" }, column.unit ?? "")),
  ]);
  const filter = h("input", {
    type: "search", placeholder: "Find a column", "aria-label": "Find a column of the row",
    input: () => {
      const wanted = filter.value.toLowerCase();
      for (const [name, line] of lines) line.hidden = !name.toLowerCase().includes(wanted);
    },
  });
  return h("section", { class: "card row", "data-key": row.key },
    h("div", { class: "cardhead" }, h("h3", {}, "Row"), button("Close", close, { "aria-label": "Close the row" })),
    h("p", { class: "where" }, `${hours(row.ra)}  ${arc(row.dec)}`),
    curves, lines.length > 8 ? filter : null,
    h("div", { class: "scroll tall" }, h("table", { class: "values" }, h("tbody", {}, lines.map(([, line]) => line)))));
}

function curvePanel(curve: Curve, offer: CurveOffer): HTMLElement {
  const index = (name: string | undefined): number => curve.columns.findIndex((column) => column.name === name);
  const time = index(curve.time);
  const values = curve.columns.filter((column) => isNumeric(column) && column.name !== curve.time).map(({ name }) => name);
  if (time < 0 || !values.length || !curve.rows) return h("p", { class: "quiet" }, "It has no points that could be drawn.");
  let value = offer.values.find((name) => values.includes(name)) ?? values[0];
  let period = 0;
  const host = h("div", {});
  const draw = (): void => replace(host, drawn(curve, offer, time, index(value), period));
  const fold = h("input", {
    type: "number", min: 0, step: "any", placeholder: "none", "aria-label": "Period to fold at",
    input: () => {
      period = Number(fold.value);
      draw();
    },
  });
  draw();
  return h("div", {}, host, h("div", { class: "tools" },
    values.length > 1 ? choice("Value", values.map((name) => [name, name]), value, (name) => {
      value = name;
      draw();
    }) : null,
    h("label", { class: "choice" }, h("span", {}, `Fold at a period${unitOf(curve, time)}`), fold)),
  h("p", { class: "quiet" }, plural(curve.rows, "point") + (curve.truncated ? ", the first of more" : "")));
}

const unitOf = (curve: Curve, at: number): string => (curve.columns[at].unit ? ` (${curve.columns[at].unit})` : "");

function drawn(curve: Curve, offer: CurveOffer, time: number, value: number, period: number): HTMLElement {
  const band = curve.columns.findIndex((column) => offer.bands.includes(column.name));
  const column = curve.columns[value];
  const error = curve.columns.findIndex(({ name }) =>
    [`${column.name}_err`, `${column.name}err`, `${column.name}_error`, `e_${column.name}`, `${column.name}Err`].includes(name));
  const times = curve.data[time].map(asNumber);
  const first = times.find(Number.isFinite) ?? 0;
  const bands = new Map<string, Series>();
  times.forEach((at, point) => {
    const height = asNumber(curve.data[value][point]);
    if (!Number.isFinite(at) || !Number.isFinite(height)) return;
    const name = band < 0 ? "" : String(curve.data[band][point]);
    if (!bands.has(name)) bands.set(name, { name, colour: SERIES[bands.size % SERIES.length], points: [] });
    const title = [name, `${curve.time} ${shown(curve.data[time][point], curve.columns[time])}`, `${column.name} ${shown(curve.data[value][point], column)}`];
    bands.get(name)!.points.push({
      x: period > 0 ? ((((at - first) / period) % 1) + 1) % 1 : at, y: height,
      error: error < 0 ? undefined : Math.abs(asNumber(curve.data[error][point])) || undefined,
      title: title.filter(Boolean).join("\n"),
    });
  });
  const series = [...bands.values()].sort((one, other) => one.name.localeCompare(other.name));
  series.forEach((each, at) => (each.colour = SERIES[at % SERIES.length]));
  const points = series.flatMap((each) => each.points);
  const [west, east] = period > 0 ? [0, 1] : roomy(points.map(({ x }) => x));
  const [low, high] = roomy(points.map(({ y }) => y));
  const magnitudes = /mag/i.test(column.unit ?? "") || /mag/i.test(column.name);
  const isTime = curve.columns[time].kind === "time" && !(period > 0);
  const chart = scatter(series,
    { least: west, most: east, title: period > 0 ? "phase" : `${curve.time}${unitOf(curve, time)}`, text: isTime ? (at) => new Date(1000 * at).toISOString().slice(0, 10) : undefined },
    { least: low, most: high, title: `${column.name}${unitOf(curve, value)}`, turned: magnitudes },
    `Light curve of ${plural(points.length, "point")}`);
  return h("div", {}, chart, series.length > 1 || series[0]?.name ? h("div", { class: "swatches" }, series.map(({ name, colour }) => {
    const box = h("i", {});
    box.style.background = colour;
    return h("span", { class: "swatch" }, box, name);
  })) : null);
}
