"""The rows of a catalog together with those of another, for outcomes that fit into memory, or as Spark's."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.moc_files import region_of
from hipslake.errors import SpecError
from hipslake.sphere.regions import Region
from hipslake.versions.vacuumed_versions import vacuum_told

if TYPE_CHECKING:
    from hipslake.catalog.joining.crossmatch import Crossmatch
    from hipslake.catalog.joining.join import CatalogJoin
    from hipslake.catalog.joining.match_counts import MatchCounts
    from hipslake.specs.error_columns import ErrorRadius
    from hipslake.specs.join_specs import MotionColumns
    from hipslake.specs.score_spec import ScoreSpec

log = logging.getLogger(__name__)


class CatalogJoins(CatalogReader):
    """Joins by position, by key, and of objects with their sources."""

    def crossmatch(
        self,
        other: CatalogReader,
        *,
        radius_arcsec: float | None = None,
        radius: ErrorRadius | Mapping[str, Any] | None = None,
        score: ScoreSpec | Mapping[str, Any] | None = None,
        min_radius_arcsec: float = 0.0,
        neighbours: int | Literal["all", "best", "mutual"] = 1,
        how: Literal["inner", "left", "anti", "outer"] = "inner",
        columns: Sequence[str] | None = None,
        other_columns: Sequence[str] | None = None,
        filters: Any = None,
        other_filters: Any = None,
        motion: MotionColumns | Mapping[str, str] | None = None,
        other_motion: MotionColumns | Mapping[str, str] | None = None,
        epoch: float | None = None,
        region: Region | str | None = None,
        missing_margin: Literal["none", "refuse"] = "refuse",
        further: Sequence[Mapping[str, Any]] = (),
        count_only: bool = False,
        separation_bins: Sequence[float] | NDArray[np.float64] | None = None,
        **names: Any,
    ) -> Any:
        """Match the rows of this catalog with those of another, for outcomes that fit into memory.

        `catalog_crossmatch` does it for larger ones, and publishes the outcome.

        Parameters
        ----------
        other : Catalog
            With a margin of at least the radius, and of what its rows and those of this catalog move; unless
            one of the two is small (see `hipslake.catalog.joining.small_sides`): then it needs none.
        radius_arcsec, min_radius_arcsec : float
            Largest and smallest separation; both count as within.
        radius : ErrorRadius or mapping, optional
            In place of `radius_arcsec`: the position errors of both rows of a pair say how far apart they may
            be. `left` and `right` name columns (a text is that of a radius in arcseconds), `sigmas` says how
            many times they count, `combine` how both do: "quadrature" or "sum".
        score : ScoreSpec or mapping, optional
            Of the rows within the radius, that with the highest score is the nearest: `function` names one
            that is marked by `hipslake.joins.pair_scores.pair_score`, as "module:function"; `left` and
            `right` the columns that it is given, `parameters` what else, `minimum` the least score of a
            candidate, and `name` the column that is added.
        neighbours : int or "all" or "best" or "mutual"
            How many of the nearest rows of the other catalog each row gets. Of rows that are equally near,
            the earlier one in the other catalog is the nearer. "best" and "mutual" give pairs one to one:
            each row with its nearest, of which a row of the other catalog keeps the nearest; rows of which
            each is the nearest to the other.
        how : {"inner", "left", "anti", "outer"}
            Rows with a match; all rows, with nulls where there is none; only rows without a match; all rows
            of both catalogs, each row of the other that nothing matches once, with nulls for this one.
        columns, other_columns : sequence of str, optional
            What is kept of either catalog; all if not given. The position of this catalog is always kept.
        filters, other_filters : pyarrow.compute.Expression or list or str, optional
            Which rows of either catalog take part, as for `read`. Rows are filtered before they are matched:
            the nearest row is the nearest of those that pass, and a row whose neighbours do not pass has no
            match.
        motion, other_motion : MotionColumns or mapping of str to str, optional
            The columns that say how rows move: `pmra`, `pmdec`, `parallax`, `radial_velocity`.
        epoch : float, optional
            Julian year that moving rows are carried to before they are matched.
        region : Region or str, optional
            Only rows of this catalog in a part of the sky, as for `read`. Of an outer match only rows of the
            other catalog there, too; whether they have a match does not depend on it.
        missing_margin : {"none", "refuse"}
            Where another catalog has no sufficient margin: match rows inside each of its leaves alone, or
            refuse. Without one, a warning is logged that says how many rows of this catalog may lack
            partners, and the metadata of the table's schema has that number as `rows_near_borders`.
        further : sequence of mapping, optional
            More catalogs that the same rows of this one are matched with, each as in a spec: `right` is the
            catalog, or a mapping of it as `catalog` with `columns`, `filters` and `motion`; and the radius,
            `neighbours`, `how` and so on of its own. A row has a row of the outcome for each combination of
            its partners.
        count_only : bool
            Count the rows, and give none: any number of them fits into memory. What `columns` and
            `other_columns` name has to be there, and is not read.
        separation_bins : sequence of float, optional
            With `count_only`, the edges of bins in arcseconds: the rows of each bin are counted by their
            separation from `other`, as `numpy.histogram` counts them.
        **names
            `suffixes`, `separation`, `position_angle`, `rank`, `nearness`, `position`: what columns of the
            outcome are called, as in a spec.

        Returns
        -------
        pyarrow.Table or MatchCounts
            `_healpix_29` and the columns of this catalog, the columns of the other one, separation and
            position angle; ordered as this catalog, and by nearness. With `count_only`, `rows`, how many it
            would have, and `separations`, how many of them are in each bin, int64[bins].

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        FilterError, RegionError
            The text is no filter, or no region.
        SpecError
            What is asked for does not go together, the other catalog has no sufficient margin, or a position
            error is negative or beyond all bounds; bins do not ascend, or an anti-match is to have some.
        """
        from hipslake.api.given_sides import FurtherCatalog
        from hipslake.catalog.joining.crossmatch import Crossmatch
        from hipslake.catalog.joining.match_counts import bin_edges
        from hipslake.catalog.joining.pairing import Pairing
        from hipslake.specs.join_specs import match_options, motion_columns

        if missing_margin not in ("none", "refuse"):
            raise SpecError(
                f"missing_margin: {missing_margin!r} does not fit; take 'none' or 'refuse', or have "
                "hipslake.publish build one with 'build'"
            )
        options = match_options(
            radius_arcsec=radius_arcsec,
            radius=radius,
            score=score,
            min_radius_arcsec=min_radius_arcsec,
            neighbours=neighbours,
            how=how,
            epoch=epoch,
            **names,
        )
        if separation_bins is not None and not count_only:
            raise SpecError("separation_bins: they are for counting; give count_only=True, too")
        edges = None if separation_bins is None else bin_edges(separation_bins, options)
        mine = (self.storage, self.metadata)
        moving = (motion_columns(motion), motion_columns(other_motion))
        more = FurtherCatalog.all_of(further, (self, other), options, moving)
        with _vacuums_told(self, other, *(each.catalog for each in more)):
            pairings = [
                Pairing.of(
                    mine,
                    (other.storage, other.metadata),
                    options,
                    columns=(columns, other_columns),
                    motions=moving,
                    filters=(filters, other_filters),
                    missing_margin=missing_margin,
                )
            ]
            pairings += [
                Pairing.of(
                    mine,
                    (each.catalog.storage, each.catalog.metadata),
                    each.options,
                    columns=(columns, each.side.columns),
                    motions=(moving[0], each.side.motion),
                    filters=(filters, each.filters),
                    missing_margin=missing_margin,
                )
                for each in more
            ]
            match = Crossmatch.of(pairings, None if region is None else region_of(region))
            return _counted(match, edges) if count_only else _whole(match)

    def join(
        self,
        other: CatalogReader,
        on: str | tuple[str, str],
        how: Literal["inner", "left", "anti"] = "inner",
        *,
        columns: Sequence[str] | None = None,
        other_columns: Sequence[str] | None = None,
        filters: Any = None,
        other_filters: Any = None,
        suffixes: Sequence[str] | None = None,
        shuffle: bool = False,
        gather: bool = False,
        spark: Any = None,
    ) -> Any:
        """Join the rows of this catalog with those of another that have the same key.

        Leaf by leaf, without a shuffle: equal keys have to be known to lie in leaves that overlap. They are
        where the columns are marked as co-partitioned, and one catalog was ingested with `position_from` the
        other, or both from a third.

        Parameters
        ----------
        other : Catalog
        on : str or (str, str)
            The key of this catalog and of the other: integers or texts. Null equals nothing.
        how : {"inner", "left", "anti"}
            Rows with a partner; all rows, with nulls where there is none; only rows without a partner.
        columns, other_columns : sequence of str, optional
            What is kept of either catalog; all but `_healpix_29` and `_row` if not given.
        filters, other_filters : pyarrow.compute.Expression or list or str, optional
            Which rows of either catalog take part, as for `read`. Rows are filtered before they are joined: a
            row whose partners do not pass has none.
        suffixes : (str, str), optional
            Of names that both catalogs have; by default "" and "_<other catalog>".
        shuffle : bool
            Let Spark bring rows together from anywhere, so that every pair is found without any mark.
        gather : bool
            Where the marks do not say that equal keys share their pixels, hold all rows of the other catalog
            in memory, 1 GiB at most: every pair is found, too.
        spark : pyspark.sql.SparkSession, optional
            Give a lazy DataFrame of this session, for outcomes that do not fit into memory.

        Returns
        -------
        pyarrow.Table or pyspark.sql.DataFrame
            `_healpix_29` and the columns of this catalog, and those of the other. The table is in the order
            of this catalog.

        Raises
        ------
        CoPartitionError
            The keys are not known to share their pixels; the message tells the ways out.
        SchemaMismatchError
            There is no such column, or the keys are of two kinds.
        FilterError
            The text is no filter.
        SpecError
            Two columns of the outcome would have one name, `on` or `suffixes` are not two, a shuffle is asked
            for without a session or together with `gather`, or the rows of the other catalog are too many.
        """
        from hipslake.catalog.joining.equijoin import Equijoin
        from hipslake.joins.key_joins import keys_of

        if shuffle and gather:
            raise SpecError("shuffle and gather are two ways to find the same pairs; give one of them")
        with _vacuums_told(self, other):
            join = Equijoin.of(
                (self.storage, self.metadata),
                (other.storage, other.metadata),
                keys_of(on),
                how,
                columns=(columns, other_columns),
                suffixes=suffixes,
                shuffle=shuffle,
                gather=gather,
                filters=(filters, other_filters),
            )
            if spark is not None:
                from hipslake.spark.joined_frames import joined_by_shuffle, leaf_by_leaf

                return joined_by_shuffle(spark, join) if shuffle else leaf_by_leaf(spark, join)
            if shuffle:
                raise SpecError("shuffle=True is Spark's join; give it a session with spark=")
            return _whole(join)

    def time_series(
        self,
        sources: CatalogReader,
        on: str | tuple[str, str],
        time: str,
        *,
        name: str = "sources",
        columns: Sequence[str] | None = None,
        source_columns: Sequence[str] | None = None,
        filters: Any = None,
        source_filters: Any = None,
        keep_empty: bool = True,
        gather: bool = False,
        spark: Any = None,
    ) -> Any:
        """Give the objects of this catalog with their sources nested, in the order of time.

        Leaf by leaf, as `join`: the keys have to be co-partitioned, or the sources to be gathered.

        Parameters
        ----------
        sources : Catalog
        on : str or (str, str)
            The key of this catalog and of the sources.
        time : str
            The column of the sources that they are sorted by; sources of one time stay in the order that they
            were ingested in, gathered ones in that of the catalog, along the curve. NaN comes after all
            times, null after that.
        name : str
            Of the column that holds the sources: a struct with a list per column of theirs, all equally long;
            empty lists for objects without any.
        columns, source_columns : sequence of str, optional
            What is kept of either catalog; all but `_healpix_29` and `_row` if not given, and of the sources
            not the key nor the position of the object.
        filters, source_filters : pyarrow.compute.Expression or list or str, optional
            Which objects, and which sources, as for `read`.
        keep_empty : bool
            Whether objects stay of which no source is left.
        gather : bool
            As for `join`: hold all sources in memory.
        spark : pyspark.sql.SparkSession, optional
            Give a lazy DataFrame of this session, for outcomes that do not fit into memory.

        Returns
        -------
        pyarrow.Table or pyspark.sql.DataFrame
            The table is in the order of this catalog.

        Raises
        ------
        CoPartitionError, SchemaMismatchError, FilterError, SpecError
            As of `join`.
        """
        from hipslake.catalog.joining.time_series import TimeSeries
        from hipslake.joins.key_joins import keys_of

        with _vacuums_told(self, sources):
            series = TimeSeries.of(
                (self.storage, self.metadata),
                (sources.storage, sources.metadata),
                keys_of(on),
                time,
                name=name,
                columns=(columns, source_columns),
                filters=(filters, source_filters),
                keep_empty=keep_empty,
                gather=gather,
            )
            if spark is not None:
                from hipslake.spark.joined_frames import leaf_by_leaf

                return leaf_by_leaf(spark, series)
            return _whole(series)


def _whole(join: CatalogJoin) -> pa.Table:
    """The outcome in the order of the left catalog; its stretches are joined side by side."""
    stretches = join.stretches(join.task_rows)
    spans = stretches.start.tolist(), stretches.stop.tolist()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(join.table, *spans))
        whole = pa.concat_tables([join.schema.empty_table(), *found])
        if join.open_borders is None:
            return whole
        lacking = sum(pool.map(join.open_borders.count, *spans))
    log.warning("%s", join.open_borders.told(lacking))
    return whole.replace_schema_metadata({"rows_near_borders": str(lacking)})


def _counted(match: Crossmatch, edges: NDArray[np.float64] | None) -> MatchCounts:
    """How many rows an outcome has; its stretches are counted side by side."""
    from hipslake.catalog.joining.match_counts import MatchCounts

    match = match.for_counting()
    stretches = match.stretches(match.task_rows)

    def count(start: int, stop: int) -> MatchCounts:
        found = match.count(start, stop, edges)
        if match.open_borders is None:
            return found
        return found._replace(rows_near_borders=match.open_borders.count(start, stop))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(count, stretches.start.tolist(), stretches.stop.tolist()))
    none = MatchCounts(
        0,
        None if edges is None else np.zeros(len(edges) - 1, np.int64),
        None if match.open_borders is None else 0,
    )
    whole = MatchCounts.together([none, *found])
    if match.open_borders is not None:
        log.warning("%s", match.open_borders.told(whole.rows_near_borders or 0))
    return whole


@contextmanager
def _vacuums_told(*sides: CatalogReader) -> Iterator[None]:
    """Say of files that are missing that the version of a side was vacuumed, if it was."""
    with ExitStack() as told:
        for side in sides:
            told.enter_context(vacuum_told(side.storage, side.version))
        yield
