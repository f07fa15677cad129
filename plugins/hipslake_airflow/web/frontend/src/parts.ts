// Parts of the pages of catalogs, tables and cubes: runs with what their steps reported, sources, and lines to copy.
import { server, type Run, type Source } from "./api";
import { button, h, problem, replace, table } from "./dom";
import { bytes, count, moment, seconds } from "./format";
import { since, state } from "./list";

export function runOf(run: Run, open: boolean): HTMLElement {
  const steps = h("div", {}, h("p", { class: "quiet" }, "Looking…"));
  let asked = false;
  const box = h("details", {
    class: "run",
    toggle: () => {
      if (!box.open || asked) return;
      asked = true;
      void server.reports(run).then((found) => replace(steps, reports(found)))
        .catch((error: Error) => replace(steps, problem(error)));
    },
  }, h("summary", {}, state(run), " ", h("strong", {}, run.dag_id), " ", since(run.start ?? run.run_after), " ", h("code", {}, run.run_id)), steps);
  box.open = open;
  return box;
}

function reports(found: Awaited<ReturnType<typeof server.reports>>): HTMLElement {
  if (!found.length) return h("p", { class: "quiet" }, "The run left no reports, or its folder is gone.");
  const most = Math.max(...found.map((step) => total(step.seconds)), 0.001);
  const superseding = found.some((step) => step.rows_superseded);
  const left = superseding ? ["Rejected", "Superseded"] : ["Rejected"];
  const heads = ["Step", "Seconds", "", "Rows in", "Rows out", ...left, "Bytes", "Files", "Ended"];
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
      count(step.rows_in), count(step.rows_out), count(step.rows_rejected), ...(superseding ? [count(step.rows_superseded)] : []),
      bytes(step.bytes), count(step.files), moment(step.finished),
    ];
  }), heads.map((_, at) => at).filter((at) => at !== 0 && at !== 2 && at !== heads.length - 1));
}

const total = (parts: Record<string, number>): number => Object.values(parts).reduce((sum, part) => sum + part, 0);

export function linesOf(lines: { tool: string; language: string; text: string }[]): HTMLElement {
  return h("div", {}, lines.map(({ tool, language, text }) => {
    const code = h("code", { class: language }, text);
    const copy = button("Copy", () => void copied(text, code, copy), { "aria-label": `Copy the lines for ${tool}` });
    return h("section", { class: "lines" }, h("h3", {}, tool), h("pre", {}, code), copy);
  }));
}

// Puts a text into the clipboard; without https there is none: it is selected, and copied as of old.
export async function copied(text: string, code: HTMLElement, copy: HTMLButtonElement): Promise<void> {
  const before = copy.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection()?.removeAllRanges();
    getSelection()?.addRange(range);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
  setTimeout(() => (copy.textContent = before), 1500);
}

// The catalog of others that a catalog stands for: where it lies, who wrote it, and in which state.
export function sourceOf(source: Source): HTMLElement {
  const adopted = source.relation === "adopted";
  const facts: [string, string | HTMLElement][] = [
    ["Lies at", h("code", {}, source.uri)],
    ["Leaves", source.copied ? "are copied into the warehouse" : "stay there, and are only read"],
    ["Called", source.name],
    ["Written by", source.builder || "–"],
    ["Written at", source.made ? moment(source.made) : "–"],
    [adopted ? "The version stands for state" : "State", h("code", {}, source.state)],
    ["Last looked at", source.looked_at ? moment(source.looked_at) : adopted ? "when the version was made" : "–"],
  ];
  const said = Object.entries(source.properties);
  return h("div", { class: "source" },
    table("The catalog of others", ["", ""], facts.map(([title, value]) => [title, value])),
    said.length ? h("details", {}, h("summary", {}, "What it says of itself"),
      h("div", { class: "values" }, table("Its properties", ["Property", "Value"], said.map(([key, value]) => [h("code", {}, key), value])))) : null);
}
