// How well a table is kept clustered: files that queries open, and bytes rewritten per byte that came in, over time.
import { roomy, scatter, SERIES, type Series } from "./chart";
import { h } from "./dom";
import { bytes } from "./format";

interface Point {
  at: string;
  files: number;
  came: number;
  rewritten: number;
  before: number[];
  after: number[];
}

export interface Clustering {
  columns: string[];
  came: number;
  rewritten: number;
  points: Point[];
}

export function clusteringOf({ columns, came, rewritten, points }: Clustering): HTMLElement {
  const kinds = columns.length > 1 ? [...columns, "all of them"] : columns;
  const told = points.filter(({ after }) => after.length === kinds.length); // others are of other columns
  const opened = kinds.map((name, at) => ({ name, colour: SERIES[at % SERIES.length], points: told.flatMap((each) => {
    const title = `${name}: ${each.before[at]} > ${each.after[at]} of ${each.files} files\n${each.at}`;
    return [{ x: Date.parse(each.at), y: each.after[at], title }];
  }) }));
  let [sumCame, sumRewritten] = [0, 0];
  const costs: Series = { name: "so far", colour: SERIES[0], points: told.filter((each) => each.came > 0).map((each) => {
    [sumCame, sumRewritten] = [sumCame + each.came, sumRewritten + each.rewritten];
    const title = `${bytes(each.rewritten)} rewritten, ${bytes(each.came)} came before it\n${each.at}`;
    return { x: Date.parse(each.at), y: sumRewritten / sumCame, title };
  }) };
  const summary = came ? `${bytes(rewritten)} rewritten of ${bytes(came)} that came in: ${(rewritten / came).toFixed(2)} times.` : "Nothing has come in yet.";
  return h("div", { class: "clustering" },
    h("p", { class: "quiet" }, `By ${columns.join(", ")}. ${summary}`),
    told.length ? drawn(opened, "files opened", "Files that queries of a tenth of the rows open, by the columns that they name") : null,
    told.length ? h("div", { class: "swatches" }, opened.map(({ name, colour }) => {
      const box = h("i", {});
      box.style.background = colour;
      return h("span", { class: "swatch" }, box, name);
    })) : null,
    costs.points.length ? drawn([costs], "bytes per byte", "Bytes rewritten per byte that came in") : null);
}

function drawn(series: Series[], title: string, label: string): SVGElement {
  const points = series.flatMap((each) => each.points);
  const [west, east] = roomy(points.map(({ x }) => x));
  const most = Math.max(...points.map(({ y }) => y));
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
  return scatter(series, { least: west, most: east, title: "run", text: day }, { least: 0, most: most * 1.05 || 1, title }, label);
}
