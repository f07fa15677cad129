// Elements, made in one expression.
type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | null | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(node));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

// An element of a drawing.
export function svg(tag: string, attributes: Record<string, string | number | ((event: Event) => void)> = {}, ...children: (Child | Child[])[]): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(node));
  return made;
}

export function problem(error: unknown): HTMLElement {
  return h("p", { class: "problem", role: "alert" }, (error as Error).message);
}

export const looking = (): HTMLElement => h("p", { class: "quiet" }, "Looking…");

// Fills an element with what comes, or with why it does not.
export async function fill(host: HTMLElement, content: Promise<Child | Child[]>): Promise<void> {
  replace(host, looking());
  replace(host, await content.catch(problem));
}

function node(child: Child): Node | string {
  return child instanceof Node ? child : String(child);
}

export function table(caption: string, heads: string[], rows: (Child | Child[])[][], numeric: number[] = []): HTMLElement {
  const kind = (at: number): string | null => (numeric.includes(at) ? "number" : null);
  return h(
    "div", { class: "scroll" },
    h(
      "table", {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: kind(at) }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) =>
        h("td", { class: kind(at) }, ...(Array.isArray(cell) ? cell : [cell])))))),
    ),
  );
}

export function choice(
  label: string, options: [string, string][], chosen: string, onChange: (value: string) => void,
): HTMLLabelElement {
  const select = h("select", { change: () => onChange(select.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

export function button(text: string, onClick: () => void, more: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", click: onClick, ...more }, text);
}

export function replace(host: Element, ...children: (Child | Child[])[]): void {
  host.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(node));
}
