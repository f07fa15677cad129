"""Assets: what a published catalog is called in Airflow."""

from __future__ import annotations

from airflow.sdk import Asset


def catalog_asset(name: str) -> Asset:
    """Return the asset of a catalog.

    Its URI names the catalog, not the place: the warehouse may move without cutting the chains that other
    DAGs hang on it. Every event carries the place in its extra, with rows and version.

    Parameters
    ----------
    name : str
        The catalog's name, e.g. `gaia_dr3`.
    """
    return Asset(name=f"catalog/{name}", uri=f"hipslake://catalogs/{name}", group="hipslake-catalog")
