// All catalogs, tables and cubes: searched, filtered and put in order.
import { dagPath, runPath, address, follow } from "./airflow";
import { server, type Failure, type Listed, type Product, type Relation, type Run } from "./api";
import { choice, fill, h, looking, replace } from "./dom";
import { age, bytes, count, moment } from "./format";
import { link, note, route } from "./route";

type Thing = (Listed & { files?: number | null }) | (Product & { partitions?: number | null; layout?: string | null });

interface Head<T> {
  title: string;
  value: (each: T) => string | number | null; // what the order goes by
  shown: (each: T) => (Node | string | null)[];
  numeric?: boolean;
}

interface Asked {
  text: string;
  status: string;
}

const STATUS: [string, string][] = [
  ["", "All"], ["published", "Published"], ["unpublished", "Not published yet"], ["failed", "With a failed run"], ["problem", "With a problem"],
];

export async function showList(host: HTMLElement): Promise<void> {
  const { state } = route();
  const asked: Asked = { text: state.get("q") ?? "", status: state.get("status") ?? "" };
  const redraws: (() => void)[] = [];
  const changed = (): void => {
    note({ q: asked.text, status: asked.status });
    for (const redraw of redraws) redraw();
  };
  const find = h("input", {
    type: "search", class: "wide", value: asked.text, placeholder: "Find by name, description or DAG", "aria-label": "Find",
    input: () => {
      asked.text = find.value;
      changed();
    },
  });
  const bodies = ["Catalogs", "Tables", "Cubes"].map((title) => {
    const body = h("div", {}, looking());
    return { body, section: h("section", { id: title.toLowerCase() }, h("h2", {}, title), body) };
  });
  replace(host, h("header", { class: "listhead" }, h("h1", {}, "Catalogs, tables and cubes"),
    h("div", { class: "tools" }, h("label", { class: "choice grow" }, h("span", {}, "Find"), find),
      choice("Show", STATUS, asked.status, (value) => {
        asked.status = value;
        changed();
      }),
      h("nav", { class: "actions" }, h("a", { class: "button", href: link(["~lineage"]) }, "Lineage"), h("a", { class: "button", href: link(["~compare"]) }, "Side by side")))),
  bodies.map(({ section }) => section));
  const part = <T extends Thing>(given: Promise<T[]>, heads: Head<T>[], none: string): Promise<HTMLElement> =>
    given.then((all) => {
      const held = sortable(all, heads, asked, none);
      redraws.push(held.redraw);
      return held.element;
    });
  await Promise.all([
    fill(bodies[0].body, part(server.catalogs(), catalogHeads(), "No catalog is here, or none that you may see.")),
    fill(bodies[1].body, part(server.tables(), productHeads("tables"), "No spec names a table.")),
    fill(bodies[2].body, part(server.cubes(), productHeads("cubes"), "No cube has been built.")),
  ]);
}

function sortable<T extends Thing>(all: T[], heads: Head<T>[], asked: Asked, none: string): { element: HTMLElement; redraw: () => void } {
  let [by, down] = [0, false];
  const body = h("tbody", {});
  const said = h("p", { class: "quiet" });
  const buttons = heads.map((head, at) => h("button", {
    type: "button", class: "plain",
    click: () => {
      down = by === at ? !down : Boolean(head.numeric);
      by = at;
      redraw();
    },
  }, head.title));
  const columns = heads.map((head, at) => h("th", { scope: "col", class: head.numeric ? "number" : null }, buttons[at]));
  const scroll = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, columns)), body));
  const redraw = (): void => {
    const kept = all.filter((each) => isWanted(each, asked)).sort((one, other) => {
      const [a, b] = [heads[by].value(one), heads[by].value(other)];
      if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is not known comes last
      const way = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return down ? -way : way;
    });
    heads.forEach((head, at) => {
      columns[at].setAttribute("aria-sort", by === at ? (down ? "descending" : "ascending") : "none");
      buttons[at].textContent = `${head.title}${by === at ? (down ? " ↓" : " ↑") : ""}`;
    });
    replace(body, kept.map((each) => h("tr", {}, heads.map((head) => h("td", { class: head.numeric ? "number" : null }, head.shown(each))))));
    scroll.hidden = !kept.length;
    said.textContent = !all.length ? none : kept.length < all.length ? `${count(kept.length)} of ${count(all.length)}` : "";
  };
  redraw();
  return { element: h("div", {}, said, scroll), redraw };
}

function isWanted(each: Thing, { text, status }: Asked): boolean {
  const words = `${each.name} ${"title" in each ? each.title : ""} ${each.description} ${each.last_run?.dag_id ?? ""}`.toLowerCase();
  if (!text.toLowerCase().split(/\s+/).every((word) => words.includes(word))) return false;
  if (status === "published") return each.version !== null;
  if (status === "unpublished") return each.version === null;
  if (status === "failed") return Boolean(each.last_failed) || each.last_run?.state === "failed";
  if (status === "problem") return Boolean(each.spec_problem) || (each.problem !== null && !isExpected(each.problem));
  return true;
}

const isExpected = (problem: string): boolean => problem === "not published yet" || problem === "nothing was sunk yet";

function about(each: Thing): (Node | null)[] {
  const broken = each.problem !== null && !isExpected(each.problem);
  const told = each.problem ?? each.description;
  return [
    told ? h("span", { class: broken ? "about bad" : "about" }, told) : null,
    each.spec_problem ? h("span", { class: "about bad" }, `Its spec: ${each.spec_problem}`) : null,
  ];
}

function catalogHeads(): Head<Listed>[] {
  return [
    {
      title: "Catalog", value: ({ name }) => name,
      shown: (each) => [each.version === null
        ? h("span", { class: "name" }, each.name, mark(each.relation))
        : h("a", { class: "name", href: link([each.name]) }, each.name, mark(each.relation)), ...about(each)],
    },
    { title: "Version", value: ({ version }) => version, shown: ({ version }) => [count(version)], numeric: true },
    { title: "Rows", value: ({ rows }) => rows, shown: ({ rows }) => [count(rows)], numeric: true },
    { title: "Bytes", value: (each) => each.bytes, shown: (each) => [bytes(each.bytes)], numeric: true },
    { title: "Partitions", value: ({ partitions }) => partitions, shown: ({ partitions }) => [count(partitions)], numeric: true },
    { title: "Layout", value: ({ layout }) => layout, shown: ({ layout }) => [layout ?? "–"] },
    { title: "Published", value: ({ created }) => created, shown: ({ created }) => [since(created)] },
    { title: "Last run", value: ({ last_run }) => last_run?.run_after ?? null, shown: (each) => [lastRun(each.last_run), failure(each.last_failed, each.last_run)] },
  ];
}

function productHeads(kind: "tables" | "cubes"): Head<Product>[] {
  return [
    {
      title: kind === "tables" ? "Table" : "Cube", value: ({ title }) => title,
      shown: (each) => [h("a", { class: "name", href: link([`~${kind}`, each.name]) }, each.title), ...about(each)],
    },
    { title: "Version", value: ({ version }) => version, shown: ({ version }) => [version ?? "–"] },
    { title: "Rows", value: ({ rows }) => rows, shown: ({ rows }) => [count(rows)], numeric: true },
    { title: "Bytes", value: (each) => each.bytes, shown: (each) => [bytes(each.bytes)], numeric: true },
    { title: "Files", value: ({ files }) => files, shown: ({ files }) => [count(files)], numeric: true },
    { title: "Written", value: ({ created }) => created, shown: ({ created }) => [since(created)] },
    { title: "Last run", value: ({ last_run }) => last_run?.run_after ?? null, shown: (each) => [lastRun(each.last_run), failure(each.last_failed, each.last_run)] },
  ];
}

// What is of others is marked.
export function mark(relation: Relation | null | undefined): HTMLElement | null {
  if (!relation) return null;
  return relation === "adopted"
    ? h("span", { class: "badge", title: "Others wrote it; its versions here stand for states of it" }, "adopted")
    : h("span", { class: "badge", title: "Others wrote it; it is read where it lies" }, "of others");
}

export function since(time: string | null): HTMLElement {
  return time ? h("time", { datetime: time, title: moment(time) }, age(time)) : h("span", {}, "–");
}

export function lastRun(run: Run | null): HTMLElement {
  if (!run) return h("span", { class: "quiet" }, "none");
  return h("span", {}, state(run), " ", since(run.start ?? run.run_after));
}

// The newest failure, where the last run does not show it by itself or says not why.
export function failure(failed: Failure | null | undefined, last: Run | null): HTMLElement | null {
  if (!failed) return null;
  const itself = last !== null && last.dag_id === failed.dag_id && last.run_id === failed.run_id;
  return h("span", { class: "about failure" },
    itself ? null : h("a", { class: "state failed", href: address(runPath(failed.dag_id, failed.run_id)), click: follow, title: failed.run_id }, "failed"),
    itself ? null : h("span", { class: "quiet" }, ` ${failed.dag_id} `, since(failed.run_after)),
    failed.error ? h("span", { class: "bad clip", title: failed.error }, ` ${failed.error}`) : null);
}

export function state(run: Run): HTMLElement {
  return h("a", {
    class: `state ${run.state}`, href: address(runPath(run.dag_id, run.run_id)), click: follow, title: run.run_id,
  }, run.state);
}

export function dagLink(dagId: string, text: string): HTMLElement {
  return h("a", { class: "button", href: address(dagPath(dagId)), click: follow, title: dagId }, text);
}
