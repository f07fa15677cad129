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

// The address that shows this page again, within Airflow's UI where it is framed by it.
export function sharedAddress(): string {
  const { pathname, search, hash, href } = location;
  return ui() ? `${address("plugin/catalogs")}${pathname}${search}${hash}` : href;
}

// Keeps the address of the window at what the frame shows, where the whole view is the frame.
export function mirrorAddress(): void {
  const around = ui();
  if (!around || !window.parent.location.pathname.includes("/plugin/catalogs")) return;
  window.parent.history.replaceState(window.parent.history.state, "", sharedAddress());
}

export interface Param {
  value: unknown;
  description: string | null;
  schema: {
    type?: string | string[];
    title?: string;
    enum?: unknown[];
    examples?: unknown[];
    values_display?: Record<string, string>;
    description?: string;
    format?: string;
    const?: unknown;
    items?: { type?: string };
    minimum?: number;
    maximum?: number;
  };
}

export interface DagForm {
  dag_id: string;
  dag_display_name: string;
  description: string | null;
  is_paused: boolean;
  params: Record<string, Param>;
}

// Airflow's own API, as the user that the session is of.
async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(address(`api/v2/${path}`), {
    method,
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    credentials: "same-origin",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = (await answer.json().catch(() => ({}))) as T & { detail?: unknown };
  if (answer.ok) return told;
  const { detail } = told;
  throw new Error(typeof detail === "string" ? detail : detail ? JSON.stringify(detail) : `Airflow answers with ${answer.status}.`);
}

const dagAt = (dagId: string): string => `dags/${encodeURIComponent(dagId)}`;

export const airflow = {
  form: async (dagId: string): Promise<DagForm> => {
    const told = await api<DagForm & { params: Record<string, Param> | null }>("GET", `${dagAt(dagId)}/details`);
    return { ...told, params: told.params ?? {} };
  },
  trigger: (dagId: string, conf: Record<string, unknown>): Promise<{ dag_run_id: string }> =>
    api("POST", `${dagAt(dagId)}/dagRuns`, { conf, logical_date: null }),
  unpause: (dagId: string): Promise<unknown> => api("PATCH", dagAt(dagId), { is_paused: false }),
};
