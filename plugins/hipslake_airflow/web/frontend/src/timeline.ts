// Versions and nights in time: a slider that shows the sky at any version, and a calendar of nights.
import { address, follow, runPath } from "./airflow";
import { type Catalog, type Moment, type Night, type Timeline } from "./api";
import { button, h, replace } from "./dom";
import { count, moment, plural } from "./format";
import { link } from "./route";

const STATES: [Night["state"], string][] = [
  ["in", "in"], ["replaced", "in, and replaced since"], ["empty", "empty"], ["running", "running"], ["due", "due"], ["late", "late"],
  ["failed", "failed"], ["missing", "missing"],
];
const DAY = 86_400_000;
const WEEKDAYS = ["Mon", "", "Wed", "", "Fri", "", "Sun"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// `show` is called while the slider moves, `settle` when it is let go.
export function slider(catalog: Catalog, timeline: Timeline, show: (version: number) => void, settle: (version: number) => void): HTMLElement | null {
  const versions = [...timeline.versions].reverse();
  if (versions.length < 2) return null;
  const place = Math.max(0, versions.findIndex(({ version }) => version === catalog.version));
  const said = h("output", { class: "said" });
  const input = h("input", {
    type: "range", min: 0, max: versions.length - 1, step: 1, value: place, "aria-label": "Version of the sky",
    input: () => {
      tell();
      show(versions[Number(input.value)].version);
    },
    change: () => settle(versions[Number(input.value)].version),
  });
  const tell = (): void => {
    const now = versions[Number(input.value)];
    const text = `Version ${now.version}: ${momentWords(now)}`;
    said.textContent = `${text}; ${plural(now.rows, "row")}`;
    input.setAttribute("aria-valuetext", text);
  };
  const step = (by: number): void => {
    const to = Number(input.value) + by;
    if (to < 0 || to >= versions.length) return;
    input.value = String(to);
    tell();
    settle(versions[to].version);
  };
  tell();
  return h("div", { class: "slider" }, button("◀", () => step(-1), { "aria-label": "The version before" }), input,
    button("▶", () => step(1), { "aria-label": "The next version" }), said);
}

// What a version is, in a few words: the nights that it brought, a margin, an index, or else what was done.
export function momentWords({ kind, restored, nights, replaced, margins, indices, increments_added: increments }: Moment): string {
  if (restored !== null) return `rolled back to version ${restored}`;
  const named = nights.length ? nights : increments.filter(({ key }) => key !== null).map(nightName);
  const words: string[] = [];
  if (named.length) {
    const some = named.slice(0, 3).map((night) => `${night.slice(0, 16).replace("T", " ").replace(" 00:00", "")}${replaced.includes(night) ? " again" : ""}`);
    words.push(`${named.length === 1 ? "night" : "nights"} ${some.join(", ")}${named.length > 3 ? ` and ${named.length - 3} more` : ""}`);
  }
  else words.push(...margins.map((radius) => `margin of ${radius}″`), ...indices.map((column) => `index of ${column}`)); // a night has its own
  if (!words.length) return kind ?? "its parent was vacuumed";
  return kind === "first" ? `first: ${words.join(", ")}` : words.join(", ");
}

export function nightName(each: { key: string | null; ordinal: number }): string {
  return each.key?.slice(0, 16).replace("T", " ").replace(" 00:00", "") ?? `#${each.ordinal}`;
}

// The calendar of nights: a column for each week. Of each night it tells the runs that were of it.
export function calendar(catalog: Catalog, timeline: Timeline, onMap: (night: Night) => void): HTMLElement {
  const { nights } = timeline;
  if (!nights.length) {
    return h("p", { class: "quiet" }, "This catalog takes no nights: each of its ingests replaces it as a whole.");
  }
  const detail = h("div", { class: "card", "aria-live": "polite", hidden: true });
  const show = (night: Night): void => {
    detail.hidden = false;
    replace(detail, nightDetail(catalog, night, onMap));
  };
  const used = new Map<string, number>();
  for (const { state } of nights) used.set(state, (used.get(state) ?? 0) + 1);
  const legend = h("div", { class: "swatches" }, STATES.filter(([state]) => used.has(state)).map(([state, text]) =>
    h("span", { class: "swatch" }, h("i", { class: `night ${state}` }), `${text} (${count(used.get(state))})`)));
  const missing = nights.filter(({ state }) => state === "missing" || state === "failed");
  return h("div", {},
    timeline.schedule ? h("p", { class: "quiet" }, `Schedule: ${timeline.schedule}`) : null,
    missing.length ? h("p", {}, h("strong", { class: "bad" }, `${plural(missing.length, "night")} to look at: `),
      missing.slice(0, 12).map((night, at) => [at ? ", " : "", button(night.label, () => show(night), { class: "plain" })]).flat(),
      missing.length > 12 ? ` and ${missing.length - 12} more` : "") : null,
    legend, daily(nights) ? weeks(nights, show) : listed(nights, show), detail);
}

// Whether each night is of a day of its own.
function daily(nights: Night[]): boolean {
  const days = new Set(nights.map(({ start }) => start.slice(0, 10)));
  return days.size === nights.length && nights.every(({ start, end }) => Date.parse(end) - Date.parse(start) <= DAY + 3_600_000);
}

const dayOf = (night: Night): number => Math.floor(Date.parse(`${night.start.slice(0, 10)}T00:00:00Z`) / DAY);

function weeks(nights: Night[], show: (night: Night) => void): HTMLElement {
  const byDay = new Map(nights.map((night) => [dayOf(night), night]));
  const days = [...byDay.keys()];
  const [first, last] = [Math.min(...days), Math.max(...days)];
  const weekday = (day: number): number => (((day + 3) % 7) + 7) % 7; // the first of 1970 was a Thursday
  const begin = first - weekday(first);
  const columns: HTMLElement[] = [h("div", { class: "week names", "aria-hidden": "true" }, h("span", { class: "month" }, ""), WEEKDAYS.map((name) => h("span", {}, name)))];
  for (let week = begin; week <= last; week += 7) {
    const opens = new Date((week + 6) * DAY);
    const named = opens.getUTCDate() <= 7 || week === begin;
    const month = `${MONTHS[opens.getUTCMonth()]}${opens.getUTCMonth() === 0 || week === begin ? ` ${opens.getUTCFullYear()}` : ""}`;
    columns.push(h("div", { class: "week" }, h("span", { class: "month" }, named ? month : ""),
      Array.from({ length: 7 }, (_, at) => {
        const night = byDay.get(week + at);
        return night ? square(night, show) : h("span", { class: "night none" });
      })));
  }
  return h("div", { class: "scroll" }, h("div", { class: "weeks" }, columns));
}

function listed(nights: Night[], show: (night: Night) => void): HTMLElement {
  return h("div", { class: "nights" }, nights.map((night) =>
    h("div", {}, square(night, show), " ", button(night.label, () => show(night), { class: "plain" }))));
}

function square(night: Night, show: (night: Night) => void): HTMLElement {
  const words = `${night.label}: ${STATES.find(([state]) => state === night.state)?.[1] ?? night.state}${night.rows !== null ? `, ${plural(night.rows, "row")}` : ""}`;
  return h("button", { type: "button", class: `night ${night.state}`, title: words, "aria-label": words, click: () => show(night) });
}

function nightDetail(catalog: Catalog, night: Night, onMap: (night: Night) => void): HTMLElement {
  const facts = [
    STATES.find(([state]) => state === night.state)?.[1] ?? night.state,
    night.rows !== null ? plural(night.rows, "row") : "", night.rejected ? `${count(night.rejected)} rejected` : "",
    night.times > 1 ? `came ${night.times} times` : "",
  ].filter(Boolean);
  return h("div", {},
    h("h3", {}, `Night ${night.label}`),
    h("p", {}, facts.join(" · "), h("span", { class: "quiet" }, `  ${moment(night.start)} to ${moment(night.end)}`)),
    h("div", { class: "actions" },
      night.ordinal !== null ? button("Show it on the map", () => onMap(night)) : null,
      night.version !== null ? h("a", { class: "button", href: link([catalog.name], { version: night.version }) }, `Version ${night.version} brought it`) : null),
    night.runs.length ? h("ul", {}, night.runs.map((run) => h("li", {},
      h("a", { class: `state ${run.state}`, href: address(runPath(run.dag_id, run.run_id)), click: follow }, run.state), " ",
      h("code", {}, run.run_id), run.start ? ` ${moment(run.start)}` : "", run.error ? h("p", { class: "bad" }, run.error) : null)))
      : h("p", { class: "quiet" }, "Airflow knows no run of it."));
}

