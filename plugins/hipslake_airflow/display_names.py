"""What the list of DAGs shows in place of an id: what a DAG is about, then what it does."""

from __future__ import annotations

_KINDS = {"catalog": "", "iceberg": "table"}
_WORDS = {"crossmatch": "cross-match", "equijoin": "join by key", "hips": "HiPS"}


def display_name(dag_id: str) -> str:
    """Return the name that the UI shows of a DAG, so that those of one catalog stand together.

    Parameters
    ----------
    dag_id : str
        `<kind>_<what is done>__<name of the spec>`, or without a name, for DAGs whose form has one.

    Examples
    --------
    >>> display_name("catalog_ingest__gaia_dr3")
    'gaia_dr3: ingest'
    >>> display_name("iceberg_sink__gaia_dr3")
    'gaia_dr3 (table): sink'
    >>> display_name("cube_remove_partitions")
    'any cube: remove partitions'
    """
    pipeline, _, name = dag_id.partition("__")
    kind, _, done = pipeline.partition("_")
    kind = _KINDS.get(kind, kind)
    about = f"{name} ({kind})" if name and kind else name or f"any {kind or 'catalog'}"
    return f"{about}: {_WORDS.get(done, done.replace('_', ' '))}"
