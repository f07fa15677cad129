// What is shown stands in the address, so that a link shows it again: `#/gaia_dr3?version=2&at=56.75,24.12,8`.
import { mirrorAddress } from "./airflow";

export interface Route {
  path: string[];
  state: URLSearchParams;
}

export function route(): Route {
  const [path, state] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), state: new URLSearchParams(state) };
}

// The hash of a view.
export function link(path: string[], state: Record<string, string | number | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = readable(query);
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// Changes parts of the state in the address; the view stays as it is.
export function note(changed: Record<string, string | number | null | undefined>, path?: string[]): void {
  const now = route();
  const state = Object.fromEntries(now.state);
  for (const [name, value] of Object.entries(changed)) {
    if (value === null || value === undefined || value === "") delete state[name];
    else state[name] = String(value);
  }
  history.replaceState(history.state, "", link(path ?? now.path, state));
  mirrorAddress();
}

// Commas and colons need no escape in a hash, and people read it.
function readable(query: URLSearchParams): string {
  return String(query).replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/");
}
