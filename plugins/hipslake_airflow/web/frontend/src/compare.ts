// Two catalogs, or two versions of one, side by side: the maps move together.
import { server, type Catalog, type Comparison, type Listed } from "./api";
import { ramp } from "./colours";
import { choice, fill, h, looking, problem, replace, table } from "./dom";
import { count, signed } from "./format";
import { MapPanel } from "./mappanel";
import { link, route } from "./route";
import { Looking } from "./scope";

const ORDER = 6;

export async function showCompare(host: HTMLElement): Promise<void> {
  const { state } = route();
  const [left, right] = [state.get("left"), state.get("right")];
  const [leftVersion, rightVersion] = ["left_version", "right_version"].map((name) => (state.get(name) ? Number(state.get(name)) : null));
  const body = h("div", {}, looking());
  const head = h("header", {}, h("p", {}, h("a", { href: "#/" }, "All catalogs")), h("h1", {}, "Side by side"));
  const all = (await server.catalogs()).filter(({ version }) => version !== null);
  replace(host, head, chooser(all, left, right, leftVersion, rightVersion), body);
  if (!left || !right) {
    replace(body, h("p", { class: "quiet" }, "Choose two catalogs, or two versions of one."));
    return;
  }
  try {
    const [one, other] = await Promise.all([server.catalog(left, leftVersion), server.catalog(right, rightVersion)]);
    const maps = [one, other].map((catalog) => new MapPanel(catalog, new Looking({}), new URLSearchParams(), false));
    const words = h("div", {});
    replace(body, h("div", { class: "sides" }, maps.map((map, at) => h("div", {}, title([one, other][at]), map.element))), words);
    together(maps);
    await Promise.all([...maps.map((map) => map.load()), fill(words, server.compare(left, right, one.version, other.version, ORDER).then(told))]);
  } catch (error) {
    replace(body, problem(error));
  }
}

function title(catalog: Catalog): HTMLElement {
  return h("h2", {}, h("a", { href: link([catalog.name], { version: catalog.version === catalog.newest ? null : catalog.version }) }, catalog.name),
    h("span", { class: "old" }, `version ${catalog.version}, ${count(catalog.rows)} rows`));
}

function chooser(all: Listed[], left: string | null, right: string | null, leftVersion: number | null, rightVersion: number | null): HTMLElement {
  const chosen = { left: left ?? "", right: right ?? "", left_version: leftVersion, right_version: rightVersion };
  const go = (): void => {
    if (chosen.left && chosen.right) location.hash = link(["~compare"], chosen);
  };
  const names = (): [string, string][] => [["", "–"], ...all.map(({ name }): [string, string] => [name, name])];
  const versions = (name: string): [string, string][] => {
    const newest = all.find((each) => each.name === name)?.version ?? 0;
    return [["", "newest"], ...Array.from({ length: Math.min(newest, 200) }, (_, at): [string, string] => [String(newest - at), String(newest - at)])];
  };
  const sides = (["left", "right"] as const).flatMap((side) => [
    choice(side === "left" ? "Left" : "Right", names(), chosen[side], (value) => {
      chosen[side] = value;
      chosen[`${side}_version`] = null;
      go();
    }),
    choice("Version", versions(chosen[side]), String(chosen[`${side}_version`] ?? ""), (value) => {
      chosen[`${side}_version`] = value ? Number(value) : null;
      go();
    }),
  ]);
  return h("div", { class: "tools" }, sides);
}

// What one map looks at, the other does too.
function together(maps: MapPanel[]): void {
  let follows = -1;
  maps.forEach((map, at) => {
    map.onView = () => {
      if (follows === at) {
        follows = -1;
        return;
      }
      const view = map.sky.looksAt;
      const other = maps[1 - at];
      const there = other.sky.looksAt;
      if (!view || (there && Math.abs(there.zoom - view.zoom) < 1e-6 && Math.abs(there.ra - view.ra) + Math.abs(there.dec - view.dec) < 1e-6)) return;
      follows = 1 - at;
      if (view.zoom <= 1.0001) other.sky.reset();
      else other.sky.lookAt(view.ra, view.dec, view.zoom);
    };
  });
}

function told(found: Comparison): HTMLElement {
  const { left, right, columns } = found;
  let [same, onlyLeft, onlyRight, more, fewer] = [0, 0, 0, 0, 0];
  found.npix.forEach((_, at) => {
    const [one, other] = [found.left_rows[at], found.right_rows[at]];
    if (one === other) same++;
    else if (!other) onlyLeft++;
    else if (!one) onlyRight++;
    else if (other > one) more++;
    else fewer++;
  });
  const [names] = [[left, right].map((side) => `${side.name} version ${side.version}`)];
  const colours = ramp(["#1f78ff", "#ff8a00"], 2);
  const swatch = (at: number): HTMLElement => {
    const box = h("i", {});
    box.style.background = colours[at];
    return h("span", { class: "swatch" }, box, names[at]);
  };
  return h("div", {},
    h("h3", {}, `${signed(right.rows - left.rows, count)} rows from left to right`),
    h("p", {}, `In cells of order ${found.order}: ${count(same)} hold as many rows in both, ${count(more)} more on the right, ${count(fewer)} more on the left; ` +
      `${count(onlyLeft)} have rows on the left alone, ${count(onlyRight)} on the right alone.${found.exact ? "" : " Counts are spread evenly over leaves."}`),
    difference(found, colours), h("div", { class: "swatches" }, swatch(0), swatch(1)),
    h("h3", {}, "Columns"),
    h("p", {}, `${count(columns.same)} are the same.`),
    columns.left_only.length || columns.right_only.length || columns.differing.length ? table("Columns that differ", ["Column", "Left", "Right"], [
      ...columns.differing.map((each) => [h("code", {}, each.name), each.left, each.right]),
      ...columns.left_only.map((each) => [h("code", {}, each.name), each.type, "–"]),
      ...columns.right_only.map((each) => [h("code", {}, each.name), "–", each.type]),
    ]) : null);
}

// A bar of how many rows the cells hold that differ most.
function difference(found: Comparison, colours: string[]): HTMLElement | null {
  const places = found.npix.map((npix, at) => ({ npix, left: found.left_rows[at], right: found.right_rows[at] }))
    .filter(({ left, right }) => left !== right).sort((one, other) => Math.abs(other.right - other.left) - Math.abs(one.right - one.left)).slice(0, 12);
  if (!places.length) return null;
  const most = Math.max(...places.flatMap(({ left, right }) => [left, right]));
  return table("Cells that differ most", ["Cell", "Rows left", "Rows right", "Difference", ""], places.map(({ npix, left, right }) => {
    const bars = [left, right].map((rows, at) => {
      const bar = h("i", {});
      bar.style.width = `${(100 * rows) / most}%`;
      bar.style.background = colours[at];
      return h("div", { class: "meter thin" }, bar);
    });
    return [`${found.order}/${npix}`, count(left), count(right), signed(right - left, count), h("div", {}, bars)];
  }), [1, 2, 3]);
}
