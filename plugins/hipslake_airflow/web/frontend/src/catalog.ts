// One catalog: its map, its versions, columns and runs, and lines that open it elsewhere.
import { server, type Catalog, type Diff, type FilesChanged, type Increment, type Run, type Version } from "./api";
import { button, h, replace, table } from "./dom";
import { bytes, count, moment, plural, seconds, signed } from "./format";
import { dagLink, lastRun, since, state } from "./list";
import { MapPanel } from "./mappanel";

const TABS = ["Versions", "Columns", "Runs", "Open it"] as const;
type Tab = (typeof TABS)[number];
const DONE_BY: [string, string][] = [
  ["ingest", "Ingest"], ["crossmatch", "Cross-match"], ["equijoin", "Join"], ["rollback", "Roll back"],
  ["compact", "Compact"], ["vacuum", "Vacuum"], ["export", "Export"], ["margin", "Margin"], ["index", "Index"],
  ["verify", "Verify"], ["repair", "Repair"],
];

export async function showCatalog(host: HTMLElement, name: string, version: number | null): Promise<void> {
  const catalog = await server.catalog(name, version);
  const map = new MapPanel(catalog);
  const body = h("div", { class: "body", role: "tabpanel" });
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const show = (tab: Tab): void => {
    for (const each of tabs.children) each.setAttribute("aria-selected", String(each.textContent === tab));
    void fill(body, tab, catalog, map);
  };
  TABS.forEach((tab) => tabs.append(button(tab, () => show(tab), { role: "tab" })));
  replace(host, head(catalog), map.element, tabs, body);
  show("Versions");
  await map.load();
}

function head(catalog: Catalog): HTMLElement {
  const old = catalog.version !== catalog.newest;
  const dags = DONE_BY.filter(([what]) => what in catalog.dags).map(([what, text]) => dagLink(catalog.dags[what], text));
  const facts: [string, string | HTMLElement][] = [
    ["Version", `${catalog.version}${old ? ` of ${catalog.newest}` : ""}`],
    ["Rows", count(catalog.rows)],
    ["Bytes", bytes(catalog.bytes)],
    ["Partitions", count(catalog.groups.reduce((sum, { leaves }) => sum + leaves, 0))],
    ["Published", since(catalog.created)],
    ["Layout", catalog.layout],
    ...(catalog.rows_rejected ? [["Rejected", count(catalog.rows_rejected)] as [string, string]] : []),
    ...(catalog.indices.length ? [["Indexed", catalog.indices.join(", ")] as [string, string]] : []),
    ["Last run", lastRun(catalog.last_runs[0] ?? null)],
  ];
  return h("header", {},
    h("p", {}, h("a", { href: "#/" }, "All catalogs")),
    h("h1", {}, catalog.name, old ? h("span", { class: "old" }, `version ${catalog.version}; `,
      h("a", { href: `#/${encodeURIComponent(catalog.name)}` }, "show the newest")) : null),
    catalog.description ? h("p", { class: "about" }, catalog.description) : null,
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    dags.length ? h("nav", { class: "actions", "aria-label": "DAGs of this catalog" }, h("span", { class: "quiet" }, "Trigger:"), dags) : null,
    catalog.attribution ? h("p", { class: "quiet" }, catalog.attribution) : null);
}

async function fill(body: HTMLElement, tab: Tab, catalog: Catalog, map: MapPanel): Promise<void> {
  const makers: Record<Tab, () => Promise<HTMLElement> | HTMLElement> = {
    Versions: () => versions(catalog, map),
    Columns: () => columns(catalog),
    Runs: () => runs(catalog),
    "Open it": () => lines(catalog),
  };
  body.dataset.tab = tab;
  let made: HTMLElement;
  try {
    made = await makers[tab]();
  } catch (error) {
    made = h("p", { class: "problem", role: "alert" }, (error as Error).message);
  }
  if (body.dataset.tab === tab) replace(body, made);
}

async function versions(catalog: Catalog, map: MapPanel): Promise<HTMLElement> {
  const found = await server.versions(catalog.name, null);
  const list = h("div", {});
  const out = h("div", { class: "diff", "aria-live": "polite" });
  const more = button("Older versions", () => void older());
  const compare = (old: number, now: number): void => void openDiff(out, catalog, map, old, now);
  const draw = (): void => {
    replace(list, versionTable(catalog, found, compare));
    more.hidden = !found.length || found.length % 20 !== 0 || found[found.length - 1].version === 1;
  };
  const older = async (): Promise<void> => {
    found.push(...(await server.versions(catalog.name, found[found.length - 1].version)));
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

function versionTable(catalog: Catalog, found: Version[], compare: (old: number, now: number) => void): HTMLElement {
  const numbers = new Set(found.map(({ version }) => version));
  const heads = ["Version", "Published", "What it is", "Rows added", "Bytes added", "Rows", "Files", "Write", ""];
  return table("Versions, newest first", heads, found.map((each) => [
    h("a", { href: `#/${encodeURIComponent(catalog.name)}?version=${each.version}` }, String(each.version)),
    since(each.created),
    what(each),
    signed(each.rows_added, count),
    signed(each.bytes_added, bytes),
    count(each.rows),
    count(each.files),
    h("code", {}, each.write_id),
    each.parent !== null && numbers.has(each.parent)
      ? button("Diff", () => compare(each.parent!, each.version), { "aria-label": `What version ${each.version} changed` })
      : null,
  ]), [0, 3, 4, 5, 6]);
}

function what(version: Version): string {
  const increments = version.increments_added;
  if (version.restored !== null) return `rolled back to version ${version.restored}`;
  if (version.kind === "appended" && increments.length) return `appended ${nights(increments)}`;
  return version.kind ?? "its parent was vacuumed";
}

function nights(increments: Increment[]): string {
  const keys = increments.slice(0, 3).map((each) => each.key?.slice(0, 16).replace("T", " ").replace(" 00:00", "") ?? `#${each.ordinal}`);
  return keys.join(", ") + (increments.length > 3 ? ` and ${increments.length - 3} more` : "");
}

async function openDiff(out: HTMLElement, catalog: Catalog, map: MapPanel, old: number, now: number): Promise<void> {
  replace(out, h("p", { class: "quiet" }, "Comparing…"));
  try {
    const diff = await server.diff(catalog.name, old, now);
    replace(out, diffText(diff, catalog));
    if (now === catalog.version) {
      for (const group of diff.groups) {
        if (group.name === catalog.groups[0].name) await map.showMoved(old, group.name);
      }
    }
  } catch (error) {
    replace(out, h("p", { class: "problem", role: "alert" }, (error as Error).message));
  }
}

function diffText(diff: Diff, catalog: Catalog): HTMLElement {
  const files = [...diff.groups, ...diff.margins.map((margin) => ({ ...margin, name: `margin ${margin.name}` }))];
  const points = [
    ...diff.increments_added.map((each) => `Increment ${nights([each])} came with ${plural(each.rows, "row")}`),
    ...diff.increments_removed.map((each) => `Increment ${nights([each])} went with ${plural(each.rows, "row")}`),
    ...diff.columns.map(({ group, name, old, new: now }) =>
      old === null ? `Column ${group}.${name} (${now}) came` : now === null ? `Column ${group}.${name} (${old}) went` : `Column ${group}.${name} was ${old} and is ${now}`),
    ...diff.indices_added.map((column) => `Index of ${column} came`),
    ...diff.indices_removed.map((column) => `Index of ${column} went`),
  ];
  const heads = ["Files of", "Came", "Went", "Stayed", "Rows that came", "Rows that went", "Bytes that came", "Bytes that went"];
  const onMap = diff.new === catalog.version
    ? h("p", { class: "quiet" }, h("i", { class: "key added" }), " files that came and ", h("i", { class: "key removed" }), " files that went, on the map")
    : h("p", { class: "quiet" }, h("a", { href: `#/${encodeURIComponent(catalog.name)}?version=${diff.new}` }, `Show version ${diff.new}`), " to see where on the map");
  return h("div", {},
    h("h3", {}, `From version ${diff.old} to ${diff.new}: ${signed(diff.rows, count)} rows, ${signed(diff.bytes, bytes)}`),
    points.length ? h("ul", {}, points.map((point) => h("li", {}, point))) : null,
    table("Files", heads, files.map((each: FilesChanged) => [
      each.name, count(each.files_added), count(each.files_removed), count(each.files_kept),
      count(each.rows_added), count(each.rows_removed), bytes(each.bytes_added), bytes(each.bytes_removed),
    ]), [1, 2, 3, 4, 5, 6, 7]),
    onMap);
}

function columns(catalog: Catalog): HTMLElement {
  return h("div", {}, catalog.groups.map((group) => {
    const orders = Object.entries(group.leaves_per_order).map(([order, leaves]) => `${count(leaves)} of order ${order}`);
    return h("section", {},
      h("h3", {}, `Column group ${group.name}`),
      h("p", {}, `${plural(group.rows, "row")}, ${bytes(group.bytes)}, ${plural(group.files, "file")}; partitions up to ${group.threshold}: ${orders.join(", ")}`),
      table(`Columns of ${group.name}`, ["Column", "Type", "Unit", "Description"], group.columns.map((column) => [
        [h("code", {}, column.name), catalog.co_partitioned.includes(column.name) ? h("span", { class: "badge" }, "co-partitioned") : null],
        h("code", {}, column.type), column.unit ?? "", column.description ?? "",
      ])));
  }));
}

async function runs(catalog: Catalog): Promise<HTMLElement> {
  const found = await server.runs(catalog.name);
  if (!found.length) return h("p", { class: "quiet" }, "Airflow knows no run of its DAGs.");
  return h("div", {}, found.map((run, at) => runOf(run, at === 0)));
}

function runOf(run: Run, open: boolean): HTMLElement {
  const steps = h("div", {}, h("p", { class: "quiet" }, "Looking…"));
  let asked = false;
  const box = h("details", {
    class: "run",
    toggle: () => {
      if (!box.open || asked) return;
      asked = true;
      void server.reports(run).then((found) => replace(steps, reports(found)))
        .catch((error: Error) => replace(steps, h("p", { class: "problem" }, error.message)));
    },
  }, h("summary", {}, state(run), " ", h("strong", {}, run.dag_id), " ", since(run.start ?? run.run_after), " ", h("code", {}, run.run_id)), steps);
  box.open = open;
  return box;
}

function reports(found: Awaited<ReturnType<typeof server.reports>>): HTMLElement {
  if (!found.length) return h("p", { class: "quiet" }, "The run left no reports, or its folder is gone.");
  const most = Math.max(...found.map((step) => total(step.seconds)), 0.001);
  const heads = ["Step", "Seconds", "", "Rows in", "Rows out", "Rejected", "Bytes", "Files", "Ended"];
  return table("Reports of the steps", heads, found.map((step) => {
    const meter = h("div", { class: "meter" });
    for (const [phase, value] of Object.entries(step.seconds)) {
      const part = h("i", { title: `${phase}: ${seconds(value)}` });
      part.style.width = `${(100 * value) / most}%`;
      meter.append(part);
    }
    return [
      [h("strong", { class: step.ok ? null : "problem" }, step.step), step.reused ? h("span", { class: "badge" }, "reused") : null,
        step.error ? h("p", { class: "problem" }, step.error) : null],
      seconds(total(step.seconds)), meter,
      count(step.rows_in), count(step.rows_out), count(step.rows_rejected), bytes(step.bytes), count(step.files), moment(step.finished),
    ];
  }), [1, 3, 4, 5, 6, 7]);
}

const total = (parts: Record<string, number>): number => Object.values(parts).reduce((sum, part) => sum + part, 0);

function lines(catalog: Catalog): HTMLElement {
  return h("div", {}, catalog.lines.map(({ tool, language, text }) => {
    const code = h("code", { class: language }, text);
    const copy = button("Copy", () => void copied(text, code, copy), { "aria-label": `Copy the lines for ${tool}` });
    return h("section", { class: "lines" }, h("h3", {}, tool), h("pre", {}, code), copy);
  }), h("p", { class: "quiet" }, "The lines open the newest version."));
}

async function copied(text: string, code: HTMLElement, copy: HTMLButtonElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange(); // without https there is no clipboard: select, and copy as of old
    range.selectNodeContents(code);
    getSelection()?.removeAllRanges();
    getSelection()?.addRange(range);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
  setTimeout(() => (copy.textContent = "Copy"), 1500);
}
