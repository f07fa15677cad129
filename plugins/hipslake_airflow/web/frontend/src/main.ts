// Which of the page's views is shown: `#/` is the list, `#/gaia_dr3?version=2` a catalog.
import { followTheme, theme } from "./airflow";
import { showCatalog } from "./catalog";
import { h, replace } from "./dom";
import { showList } from "./list";

const MAKERS = ["catalog_ingest", "catalog_crossmatch", "catalog_equijoin", "catalog_compact", "catalog_margin",
  "catalog_index", "catalog_rollback", "catalog_vacuum", "catalog_verify", "catalog_repair"];
const host = document.getElementById("page")!;

function dress(): void {
  document.documentElement.dataset.theme = theme();
}

// The catalog of a DAG, where the page is a tab of one.
function ofDag(): string | null | undefined {
  const dagId = new URLSearchParams(location.search).get("dag");
  if (dagId === null) return undefined;
  const [pipeline, ...name] = dagId.split("__");
  return MAKERS.includes(pipeline) && name.length ? name.join("__") : null;
}

async function show(): Promise<void> {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = decodeURIComponent(path) || (location.hash ? "" : ofDag());
  const version = new URLSearchParams(query).get("version");
  try {
    if (name) await showCatalog(host, name, version === null ? null : Number(version));
    else if (name === null) replace(host, h("p", { class: "quiet" }, "This DAG makes no catalog. "), h("a", { href: "#/" }, "All catalogs"));
    else await showList(host);
  } catch (error) {
    replace(host, h("p", { class: "problem", role: "alert" }, (error as Error).message), h("a", { href: "#/" }, "All catalogs"));
  }
}

dress();
followTheme(dress);
addEventListener("hashchange", () => void show());
void show();
