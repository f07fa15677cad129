// The Airflow UI around the page: its theme, and its other pages. The frame may not lead away by itself, but it is
// of the same origin.

export type Theme = "light" | "dark";

function ui(): Document | null {
  try {
    return window.parent === window ? null : window.parent.document;
  } catch {
    return null; // framed by somebody else
  }
}

export function theme(): Theme {
  const root = ui()?.documentElement;
  if (root?.classList.contains("dark")) return "dark";
  if (root?.classList.contains("light")) return "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function followTheme(onChange: (theme: Theme) => void): void {
  const tell = (): void => onChange(theme());
  const root = ui()?.documentElement;
  if (root) new MutationObserver(tell).observe(root, { attributes: true, attributeFilter: ["class"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

// Of a page of Airflow: the app lies one step below its root.
export function address(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

export const dagPath = (dagId: string): string => `dags/${encodeURIComponent(dagId)}`;
export const runPath = (dagId: string, runId: string): string =>
  `${dagPath(dagId)}/runs/${encodeURIComponent(runId)}`;

// Follows a link in the whole window, not in the frame.
export function follow(event: Event): void {
  const link = event.currentTarget as HTMLAnchorElement;
  const around = ui();
  const mouse = event as MouseEvent;
  if (!around || mouse.ctrlKey || mouse.metaKey || mouse.shiftKey || mouse.button > 0) return;
  event.preventDefault();
  const outside = around.createElement("a");
  outside.href = link.href;
  around.body.append(outside);
  outside.click();
  outside.remove();
}
