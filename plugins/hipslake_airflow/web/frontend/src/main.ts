// Which of the page's views is shown: `#/` is the list, `#/gaia_dr3?version=2` a catalog, `#/~tables/gaia` a
// table: no catalog has a name with a tilde.
import { followTheme, theme } from "./airflow";
import { showCatalog } from "./catalog";
import { showCompare } from "./compare";
import { h, problem, replace } from "./dom";
import { showLineage } from "./lineage";
import { showList } from "./list";
import { showProduct } from "./product";
import { route } from "./route";

const MAKERS = ["catalog_ingest", "catalog_adopt", "catalog_crossmatch", "catalog_equijoin", "catalog_compact", "catalog_margin",
  "catalog_index", "catalog_rollback", "catalog_vacuum", "catalog_verify", "catalog_repair", "catalog_hips"];
const host = document.getElementById("page")!;

function dress(): void {
  document.documentElement.dataset.theme = theme();
}

// The catalog of a DAG, where the page is a tab of one.
function ofDag(): string | null | undefined {
  const dagId = new URLSearchParams(location.search).get("dag");
  if (dagId === null) return undefined;
  const [pipeline, ...name] = dagId.split("__");
  return MAKERS.some((maker) => pipeline.endsWith(maker)) && name.length ? name.join("__") : null;
}

async function show(): Promise<void> {
  const { path, state } = route();
  const name = path[0] ?? (location.hash ? undefined : ofDag());
  const version = state.get("version");
  try {
    if (name === null) replace(host, h("p", { class: "quiet" }, "This DAG makes no catalog. "), h("a", { href: "#/" }, "All catalogs"));
    else if (!name) await showList(host);
    else if (name === "~tables" || name === "~cubes") await showProduct(host, name === "~tables" ? "tables" : "cubes", path[1] ?? "");
    else if (name === "~compare") await showCompare(host);
    else if (name === "~lineage") await showLineage(host);
    else await showCatalog(host, name, version === null ? null : Number(version));
  } catch (error) {
    replace(host, problem(error), h("a", { href: "#/" }, "All catalogs"));
  }
}

dress();
followTheme(dress);
addEventListener("hashchange", () => void show());
void show();
