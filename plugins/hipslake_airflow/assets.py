"""The Airflow assets of catalogs, tables and cubes."""

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


def table_asset(name: str) -> Asset:
    """Return the asset of a table; it has the name of the table's spec.

    Parameters
    ----------
    name : str
        The name of the spec, e.g. `gaia_dr3`.
    """
    return Asset(name=f"table/{name}", uri=f"hipslake://tables/{name}", group="hipslake-table")


def cube_asset(name: str) -> Asset:
    """Return the asset of a cube; it has the name of the cube's spec.

    Parameters
    ----------
    name : str
        The cube's name, e.g. `sky`.
    """
    return Asset(name=f"cube/{name}", uri=f"hipslake://cubes/{name}", group="hipslake-cube")
