"""The forms of the DAGs that make a catalog, and see to its versions."""

from __future__ import annotations

from airflow.sdk import Param
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.margin_spec import MAX_ARCSEC, MIN_ARCSEC
from hipslake.specs.vacuum_spec import (
    MAX_KEEP_DAYS,
    MAX_KEEP_VERSIONS,
    MIN_ORPHAN_DAYS,
    TableVacuumSpec,
    VacuumSpec,
)

from hipslake_airflow.params.fields import (
    LONGEST_URI,
    force_field,
    switch_field,
    text_field,
    threshold_field,
    wait_field,
    window_fields,
)
from hipslake_airflow.params.versions import proposed_versions, version_param

MAX_FRACTION = 0.01  # of the rows of a catalog, that a delete takes out unless its form says otherwise
_MOST_KEYS = 100_000
LONGEST_KEY = 1000  # letters
_LONGEST_FILTERS = 10_000
_LONGEST_REGION = 100_000


def ingest_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a run that ingests files, with types, bounds and help."""
    return {**({} if spec.mode.by_intervals else _of_a_whole_version(spec)), **_of_every_run(spec)}


def adopt_params(spec: AdoptSpec) -> dict[str, Param]:
    """Return the params of a run that adopts a catalog of others."""
    return {
        "force": force_field("the catalog of others, spec and library are those of the newest version"),
        "wait_minutes": Param(
            spec.wait_minutes,
            type="number",
            minimum=0,
            maximum=525_600,
            title="Wait for a change (minutes)",
            description="How long to wait for a change of the catalog of others, where there is none yet.",
        ),
    }


def margin_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a run that adds margins, with what the spec says as the default."""
    return {
        "arcsec": Param(
            list(spec.margin.arcsec) or [10.0],
            type="array",
            items={"type": "number", "minimum": MIN_ARCSEC, "maximum": MAX_ARCSEC},
            minItems=1,
            maxItems=20,
            uniqueItems=True,
            title="Distances (arcsec)",
            description=(
                "A margin is made at each of these distances at which the newest version has none. A list "
                "of numbers, such as [10, 60]."
            ),
        )
    }


def compact_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a compaction."""
    return {
        "min_files": Param(
            spec.compact.min_files,
            type="integer",
            minimum=2,
            maximum=10_000,
            title="Files of a leaf",
            description="Leaves with at least as many files are compacted; 2: all that have several.",
        )
    }


def delete_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a delete; one of the ways to choose rows has to be given."""
    of = f"column {spec.key[0]}" if len(spec.key) == 1 else "the indexed column"
    several = f"Columns: {', '.join(spec.key)}. " if spec.key else ""
    file = f"Path or URI of a Parquet or CSV file with the keys of rows. {several}"
    return {
        **chosen_rows(of, file),
        **_in_region(),
        "max_fraction": most_field("If more than this part of all rows would go, nothing is deleted."),
        "force": switch_field("Force", "Delete the rows, however many they are."),
    }


def reassign_params(spec: CatalogSpec) -> dict[str, Param]:
    """Return the params of a reassignment; one of the ways to choose rows has to be given."""
    columns = ", ".join(spec.key)
    given = spec.position_from.column if spec.position_from is not None else None
    file = f"Path or URI of a Parquet or CSV file with the keys of rows ({columns}), and the object of each."
    return {
        "to": text_field("To object", "The id of the object that all these rows are given to.", LONGEST_KEY),
        **chosen_rows(f"column {columns}", f"{file} 'To object' stays empty then."),
        **_in_region(),
        "column": text_field(
            "Column of objects",
            "The column that names the object of a row"
            + (f"; {given} if nothing is said." if given else ", as co_partitioned says if nothing is said."),
            LONGEST_KEY,
        ),
        "max_fraction": most_field("If more than this part of all rows is chosen, nothing is changed."),
        "force": switch_field("Force", "Reassign the rows, however many they are: 4 million at most."),
    }


def chosen_rows(of: str, file: str) -> dict[str, Param]:
    """The fields that choose rows: by keys, which are values of a column, or by a filter."""
    return {
        "keys": Param(
            None,
            type=["null", "array"],
            items={"type": ["string", "integer"], "maxLength": LONGEST_KEY},
            maxItems=_MOST_KEYS,
            title="Keys",
            description=f"Rows with these values of {of}, one per line. For several columns give a file.",
        ),
        "keys_file": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=LONGEST_URI,
            title="File of keys",
            description=file,
        ),
        "filters": text_field(
            "Filters", "Rows for which this is true: night = 20261121 and flags > 0.", _LONGEST_FILTERS
        ),
    }


def _in_region() -> dict[str, Param]:
    """The field that chooses rows by a region."""
    told = "Rows that lie in it: cone 56.75 24.12 3deg, box ra 350..10 dec -5..5."
    return {"region": text_field("Region", told, _LONGEST_REGION)}


def most_field(what: str) -> Param:
    """The field of the largest part of all rows; `what` says what becomes of more."""
    return Param(
        MAX_FRACTION,
        type="number",
        minimum=0,
        maximum=1,
        title="Largest part",
        description=f"{what} The run fails then.",
    )


def rollback_params(catalog: str) -> dict[str, Param]:
    """Return the params of a rollback; the version has no default, and the older ones are proposed."""
    help_text = (
        "The number of the version to bring back. It is published once more, as the newest; all versions "
        "stay. The catalogs page tells what each is; Catalog.open(...).versions() lists those that there are."
    )
    older = proposed_versions("catalogs", catalog)[1:]
    return {"version": version_param(help_text, older, required=True)}


def vacuum_params(kept: VacuumSpec, versions: str = "versions") -> dict[str, Param]:
    """Return the params of a vacuum, or of a cube's cleanup, with what the spec says as defaults.

    Parameters
    ----------
    kept : VacuumSpec
    versions : str
        What goes: versions, or the snapshots of a table.
    """
    one = versions.removesuffix("s")
    orphans = {}
    if isinstance(kept, TableVacuumSpec):
        orphans["orphan_days"] = Param(
            kept.orphan_days,
            type=["null", "number"],
            minimum=MIN_ORPHAN_DAYS,
            maximum=MAX_KEEP_DAYS,
            title="Orphan days",
            description=(
                "Files in the table's folders that were never committed go once they are older than so many "
                "days, whoever wrote them. Empty: only those of runs of this library that died."
            ),
        )
    return {
        "keep_versions": Param(
            kept.keep_versions,
            type="integer",
            minimum=1,
            maximum=MAX_KEEP_VERSIONS,
            title=f"Keep {versions}",
            description=f"So many of the newest {versions} stay, the newest one counted.",
        ),
        "keep_days": Param(
            kept.keep_days,
            type="number",
            minimum=0,
            maximum=MAX_KEEP_DAYS,
            title="Keep days",
            description=(
                f"A {one} stays for so many days after a newer one took its place, and so do the folders "
                f"of runs. Who has opened a {one} needs its files until the work is done."
            ),
        ),
        **orphans,
        "dry_run": switch_field(
            "Dry run",
            "Only log what would be deleted. A run that the schedule of the spec started deletes, "
            "whatever stands here.",
            on=True,
        ),
    }


def verify_params() -> dict[str, Param]:
    """Return the params of a verification of what is published."""
    return {
        "all_versions": switch_field(
            "All versions",
            "Also the whole log, and every version that can be opened; what versions share is read once. "
            "Else only the newest version, and what names it.",
            on=True,
        )
    }


def repair_params() -> dict[str, Param]:
    """Return the params of a repair."""
    return {
        "dry_run": switch_field(
            "Dry run", "Only log what would be mended, and what no other file can mend.", on=True
        )
    }


def _of_a_whole_version(spec: CatalogSpec) -> dict[str, Param]:
    """What only a run that builds a whole new version may choose."""
    thresholds = ", ".join(f"{group.name}: {spec.threshold_of(group.name)}" for group in spec.column_groups)
    return {
        "threshold": threshold_field(
            f"Holds for every column group. Empty: as the spec says ({thresholds})."
        ),
        "layout": Param(
            spec.layout.value,
            type="string",
            enum=[layout.value for layout in Layout],
            title="Layout",
            description="hats: every column group is a HATS catalog, for LSDB. hipscat: a folder per pixel.",
        ),
    }


def _of_every_run(spec: CatalogSpec) -> dict[str, Param]:
    whole = not spec.mode.by_intervals
    made_of = "files, spec and library are those of the newest version"
    stands = "the interval was appended from the very same files"
    waits = "the spec lets empty intervals pass" if spec.on_empty == "skip" else "the run fails"
    return {
        "force": force_field(made_of if whole else stands),
        "wait_minutes": wait_field("" if whole else f" If none comes, {waits}."),
        **window_fields(),
    }
