// What is made of what: sources, catalogs, joins, tables and cubes, as a graph from left to right.
import { address, dagPath, follow } from "./airflow";
import { server, type Lineage } from "./api";
import { fill, h, svg } from "./dom";
import { link } from "./route";

type Node = Lineage["nodes"][number];

const [WIDE, HIGH, ACROSS, DOWN] = [210, 52, 350, 72];
const KINDS: Record<Node["kind"], string> = { source: "source", catalog: "catalog", table: "table", cube: "cube", join: "join" };

export async function showLineage(host: HTMLElement): Promise<void> {
  const body = h("div", {});
  host.replaceChildren(h("header", {}, h("p", {}, h("a", { href: "#/" }, "All catalogs")), h("h1", {}, "Lineage")), body);
  await fill(body, lineageOf(null));
}

export async function lineageOf(name: string | null): Promise<HTMLElement> {
  const lineage = await server.lineage(name);
  if (!lineage.nodes.length) return h("p", { class: "quiet" }, "Nothing here that you may see.");
  return h("div", { class: "scroll" }, drawn(lineage, name), h("details", {}, h("summary", {}, "As a list"), listed(lineage)));
}

// Columns by the longest way from a source.
export function columnsOf({ nodes, edges }: Lineage): Map<string, number> {
  const depth = new Map(nodes.map(({ id }) => [id, 0]));
  for (let round = 0; round < nodes.length; round++) {
    let moved = false;
    for (const { from, to } of edges) {
      const wanted = (depth.get(from) ?? 0) + 1;
      if (depth.has(to) && depth.has(from) && wanted > depth.get(to)! && wanted < nodes.length) {
        depth.set(to, wanted);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return depth;
}

// Rows in each column, in the order of what they are made of.
function places(lineage: Lineage): Map<string, [number, number]> {
  const depth = columnsOf(lineage);
  const columns: Node[][] = [];
  for (const node of lineage.nodes) (columns[depth.get(node.id)!] ??= []).push(node);
  const found = new Map<string, [number, number]>();
  for (let at = 0; at < columns.length; at++) {
    const weight = (node: Node): number => {
      const above = lineage.edges.filter(({ to }) => to === node.id).map(({ from }) => found.get(from)?.[1]).filter((y) => y !== undefined);
      return above.length ? above.reduce((sum, y) => sum + y, 0) / above.length : 0;
    };
    const ordered = (columns[at] ?? []).map((node) => [weight(node), node] as const).sort(([one], [other]) => one - other);
    let next = 0;
    for (const [wanted, node] of ordered) {
      const y = Math.max(next, at ? Math.round(wanted / DOWN) * DOWN : 0);
      found.set(node.id, [at * ACROSS, y]);
      next = y + DOWN;
    }
  }
  return found;
}

function drawn(lineage: Lineage, name: string | null): SVGElement {
  const at = places(lineage);
  const all = [...at.values()];
  const width = Math.max(...all.map(([x]) => x)) + WIDE + 8;
  const height = Math.max(...all.map(([, y]) => y)) + HIGH + 8;
  const drawing = svg("svg", { class: "lineage", viewBox: `-4 -4 ${width} ${height}`, width, height, role: "img", "aria-label": "Lineage" });
  for (const { from, to, what } of lineage.edges) {
    const [start, end] = [at.get(from), at.get(to)];
    if (!start || !end) continue;
    const [x1, y1, x2, y2] = [start[0] + WIDE, start[1] + HIGH / 2, end[0], end[1] + HIGH / 2];
    const bend = Math.max(30, (x2 - x1) / 2);
    drawing.append(svg("path", { class: "edge", d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }, svg("title", {}, what)),
      svg("text", { class: "what", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 4, "text-anchor": "middle" }, what));
  }
  for (const node of lineage.nodes) {
    const [x, y] = at.get(node.id)!;
    const box = svg("g", { class: `node ${node.kind}${node.name === name ? " here" : ""}${node.problem ? " broken" : ""}${node.published ? "" : " unpublished"}`, transform: `translate(${x} ${y})` },
      svg("rect", { width: WIDE, height: HIGH, rx: 7 }),
      svg("text", { class: "kind", x: 12, y: 18 }, KINDS[node.kind] + (node.problem ? ": broken" : node.published || node.kind === "source" ? "" : ": not published")),
      svg("text", { class: "named", x: 12, y: 38 }, node.title.length > 27 ? `${node.title.slice(0, 26)}…` : node.title),
      svg("title", {}, [node.title, node.problem].filter(Boolean).join("\n")));
    const target = hrefOf(node);
    drawing.append(target ? svg("a", { href: target }, box) : box);
  }
  return drawing;
}

function hrefOf({ kind, name, published }: Node): string | null {
  if (kind === "catalog" || kind === "join") return published ? link([name]) : null;
  if (kind === "table" || kind === "cube") return link([`~${kind}s`, name]);
  return null;
}

function listed({ nodes, edges }: Lineage): HTMLElement {
  return h("ul", {}, nodes.map((node) => {
    const from = edges.filter(({ to }) => to === node.id).map((edge) => nodes.find(({ id }) => id === edge.from)?.title ?? edge.from);
    const target = hrefOf(node);
    return h("li", {}, `${KINDS[node.kind]} `, target ? h("a", { href: target }, node.title) : h("strong", {}, node.title),
      from.length ? `, of ${from.join(", ")}` : "", node.dags.map(({ does, dag_id }) => [" ", h("a", { href: address(dagPath(dag_id)), click: follow, title: dag_id }, does)]).flat(),
      node.problem ? h("span", { class: "problem" }, ` ${node.problem}`) : null);
  }));
}
