// All catalogs, tables and cubes.
import { dagPath, runPath, address, follow } from "./airflow";
import { server, type Listed, type Product, type Run } from "./api";
import { h, replace, table } from "./dom";
import { age, bytes, count, moment } from "./format";

export async function showList(host: HTMLElement): Promise<void> {
  const sections = ["Catalogs", "Tables", "Cubes"].map((title) => {
    const body = h("div", {}, h("p", { class: "quiet" }, "Looking…"));
    return { body, section: h("section", {}, h("h2", {}, title), body) };
  });
  replace(host, h("h1", {}, "Catalogs, tables and cubes"), sections.map(({ section }) => section));
  await Promise.all([
    fill(sections[0].body, server.catalogs().then(catalogs)),
    fill(sections[1].body, server.tables().then((all) => products(all, "No spec in include/specs/tables names a table."))),
    fill(sections[2].body, server.cubes().then((all) => products(all, "No cube has been built."))),
  ]);
}

async function fill(body: HTMLElement, content: Promise<HTMLElement>): Promise<void> {
  replace(body, await content.catch((error: Error) => h("p", { class: "problem", role: "alert" }, error.message)));
}

function catalogs(all: Listed[]): HTMLElement {
  if (!all.length) return h("p", { class: "quiet" }, "No catalog is here, or none that you may see.");
  const heads = ["Catalog", "Version", "Rows", "Bytes", "Partitions", "Published", "Last run"];
  return table("Catalogs", heads, all.map((each) => {
    const name = each.problem
      ? h("span", { class: "name" }, each.name)
      : h("a", { class: "name", href: `#/${encodeURIComponent(each.name)}` }, each.name);
    const about = each.problem ?? each.description;
    return [
      [name, about ? h("span", { class: each.version === null && each.problem !== "not published yet" ? "about problem" : "about" }, about) : null],
      count(each.version), count(each.rows), bytes(each.bytes), count(each.partitions),
      since(each.created), lastRun(each.last_run),
    ];
  }), [1, 2, 3, 4]);
}

function products(all: Product[], none: string): HTMLElement {
  if (!all.length) return h("p", { class: "quiet" }, none);
  const heads = ["Name", "Version", "Rows", "Bytes", "Files", "Written", "Last run"];
  return table("Tables or cubes", heads, all.map((each) => [
    [h("span", { class: "name" }, each.title), h("span", { class: "about" }, each.problem ?? each.description)],
    each.version ?? "–", count(each.rows), bytes(each.bytes), count(each.files),
    since(each.created), lastRun(each.last_run),
  ]), [2, 3, 4]);
}

export function since(time: string | null): HTMLElement {
  return time ? h("time", { datetime: time, title: moment(time) }, age(time)) : h("span", {}, "–");
}

export function lastRun(run: Run | null): HTMLElement {
  if (!run) return h("span", { class: "quiet" }, "none");
  return h("span", {}, state(run), " ", since(run.start ?? run.run_after));
}

export function state(run: Run): HTMLElement {
  return h("a", {
    class: `state ${run.state}`, href: address(runPath(run.dag_id, run.run_id)), click: follow, title: run.run_id,
  }, run.state);
}

export function dagLink(dagId: string, text: string): HTMLElement {
  return h("a", { class: "button", href: address(dagPath(dagId)), click: follow, title: dagId }, text);
}
