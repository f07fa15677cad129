// Triggers a DAG by a form of its params, with what the page knows filled in.
import { address, airflow, dagPath, follow, runPath, type DagForm, type Param } from "./airflow";
import { button, h, problem, replace } from "./dom";

export type Conf = Record<string, unknown>;

interface Field {
  element: HTMLElement;
  value: () => unknown;
}

// `known` are values for params that the DAG has; `offered` are values to choose from.
export async function openForm(dagId: string, known: Conf, offered: Record<string, string[]> = {}): Promise<void> {
  const body = h("div", {}, h("p", { class: "quiet" }, "Looking…"));
  const dialog = h("dialog", { class: "form", "aria-label": `Trigger ${dagId}` }, body);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try {
    show(body, dialog, await airflow.form(dagId), known, offered);
  } catch (error) {
    replace(body, problem(error), bottom(dialog, dagId));
  }
}

function show(
  body: HTMLElement, dialog: HTMLDialogElement, form: DagForm, known: Conf, offered: Record<string, string[]>,
): void {
  const fields = Object.entries(form.params).map(([name, param]): [string, Field] => [
    name, field(name, param, name in known ? known[name] : param.value, offered[name] ?? null),
  ]);
  const unpause = h("input", { type: "checkbox", checked: true });
  const said = h("div", { "aria-live": "polite" });
  const go = h("button", { type: "submit", class: "main" }, "Trigger");
  const made = h("form", {
    submit: (event) => {
      event.preventDefault();
      void run();
    },
  },
  h("h2", {}, form.dag_display_name || form.dag_id),
  form.description ? h("p", { class: "about" }, form.description) : null,
  fields.map(([, { element }]) => element),
  fields.length ? null : h("p", { class: "quiet" }, "This DAG takes no parameters."),
  form.is_paused ? h("label", { class: "check" }, unpause, " This DAG is paused: unpause it, so that the run starts") : null,
  said, bottom(dialog, form.dag_id, go));
  const run = async (): Promise<void> => {
    go.disabled = true;
    try {
      const conf = Object.fromEntries(fields.map(([name, { value }]) => [name, value()]));
      if (form.is_paused && unpause.checked) await airflow.unpause(form.dag_id);
      const { dag_run_id } = await airflow.trigger(form.dag_id, conf);
      replace(said, h("p", {}, "Triggered: ", h("a", { href: address(runPath(form.dag_id, dag_run_id)), click: follow }, dag_run_id)));
    } catch (error) {
      replace(said, problem(error));
      go.disabled = false;
    }
  };
  replace(body, made);
  made.querySelector<HTMLElement>("input, select, textarea")?.focus();
}

function bottom(dialog: HTMLDialogElement, dagId: string, go: HTMLElement | null = null): HTMLElement {
  return h("div", { class: "actions" }, go, button("Close", () => dialog.close()),
    h("a", { class: "quiet", href: address(dagPath(dagId)), click: follow }, "Open the DAG in Airflow"));
}

function field(name: string, { schema, description }: Param, value: unknown, choices: string[] | null): Field {
  const types = [schema.type ?? "string"].flat();
  const mayBeNull = types.includes("null");
  const kind = types.includes("integer") ? "integer" : (types.find((type) => type !== "null") ?? "string");
  const named = schema.title || name;
  const about = description || schema.description || "";
  const around = (input: HTMLElement): HTMLElement =>
    h("label", { class: "field" }, h("span", { class: "named" }, named), input, about ? h("span", { class: "about" }, about) : null);
  if (kind === "boolean") {
    const input = h("input", { type: "checkbox", name, checked: Boolean(value) });
    return {
      element: h("label", { class: "check" }, input, " ", h("span", { class: "named" }, named), about ? h("span", { class: "about" }, about) : null),
      value: () => input.checked,
    };
  }
  const listed = schema.enum ?? (choices && kind !== "array" ? choices : null);
  if (listed) {
    const texts = listed.map((each) => (each === null ? "" : String(each)));
    const given = value === null || value === undefined ? "" : String(value);
    const all = [...new Set([...(mayBeNull || given === "" ? [""] : []), ...texts, given])];
    const input = h("select", { name }, all.map((each) =>
      h("option", { value: each, selected: each === given }, schema.values_display?.[each] ?? (each || "–"))));
    return { element: around(input), value: () => typed(input.value, kind, mayBeNull) };
  }
  if (kind === "array" || kind === "object") {
    const plain = kind === "array" && (schema.items?.type ?? "string") === "string";
    const text = value === null || value === undefined ? "" : plain && Array.isArray(value) ? value.join("\n") : JSON.stringify(value, null, 1);
    const input = h("textarea", { name, rows: 3 }, text);
    return {
      element: around(input),
      value: () => {
        if (!input.value.trim()) return mayBeNull ? null : kind === "array" ? [] : {};
        return plain ? input.value.split("\n").map((each) => each.trim()).filter(Boolean) : (JSON.parse(input.value) as unknown);
      },
    };
  }
  const numeric = kind === "integer" || kind === "number";
  const hints = (schema.examples ?? []).map(String);
  const id = hints.length ? `hints-${name}` : null;
  const input = h("input", {
    name, type: numeric ? "number" : "text", step: kind === "number" ? "any" : null, list: id,
    min: schema.minimum, max: schema.maximum, value: value === null || value === undefined ? "" : String(value),
  });
  const all = h("span", {}, input, id ? h("datalist", { id }, hints.map((each) => h("option", { value: each }))) : null);
  return { element: around(all), value: () => typed(input.value, kind, mayBeNull) };
}

function typed(text: string, kind: string, mayBeNull: boolean): unknown {
  if (text === "" && (mayBeNull || kind !== "string")) return null;
  return kind === "integer" || kind === "number" ? Number(text) : text;
}
