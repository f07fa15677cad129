"""The manifests of a new snapshot: pyiceberg's producers, and what they lack.

pyiceberg names files to be removed by a predicate, adds and removes no delete files, and gives every new
file the sequence number of its snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update.snapshot import (
    _FastAppendFiles,
    _MergeAppendFiles,
    _OverwriteFiles,
    _SnapshotProducer,
)
from pyiceberg.types import StructType

from hipslake.clustering.planning import FileSizing, RewriteGroup, TableFile, plan_bin_packing

_ONLY_OF_VERSION_3 = (142, 144, 145)
"""Fields of data files in manifests: the first row's id, and where a deletion vector lies in its file."""

DEFAULT_MANIFEST_BYTES = 8 << 20
"""The size of manifests, if a table says none."""

LEAST_ENTRIES = 1000
"""A manifest of fewer than twice as many entries is not cut: each part has the whole schema once more."""


def schema_with(metadata: TableMetadata, field_ids: set[int]) -> Schema:
    """The newest schema of a table that has some columns; the present one, if none has all of them."""
    present = metadata.schema()
    older = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    return next((each for each in (present, *older) if field_ids <= each.field_ids), present)


def _schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """A schema that has the columns of a partition spec."""
    return schema_with(metadata, {field.source_id for field in spec.fields})


class _Producer(_SnapshotProducer):  # type: ignore[type-arg]
    """Writes manifests of partition specs whose columns are gone, and deletes none.

    pyiceberg deletes what it has written when another writer was first. But then a request before may have
    taken effect, or be about to; what nothing names is deleted by a sweep:
    `hipslake.tables.iceberg.write_folders`.
    """

    unlisted: Sequence[str] = ()
    """Manifests that were written, and merged into others at once."""

    def _clean_all_uncommitted(self) -> None:
        pass

    def _cleanup_uncommitted(self) -> None:
        pass

    def new_manifest_writer(
        self, spec: PartitionSpec, content: ManifestContent = ManifestContent.DATA
    ) -> ManifestWriter:
        """A manifest has the schema whose columns its partition spec is of, which may have been dropped."""
        metadata = self._transaction.table_metadata
        schema = _schema_of(metadata, spec)
        output = self.new_manifest_output()
        if content == ManifestContent.DELETES:
            return _DeletesWriter(spec, schema, output, self._snapshot_id, self._compression)
        return write_manifest(
            format_version=metadata.format_version,
            spec=spec,
            schema=schema,
            output_file=output,
            snapshot_id=self._snapshot_id,
            avro_compression=self._compression,
        )


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of delete files, which pyiceberg does not.

    Attributes
    ----------
    referenced : dict of str to str
        By the path of a delete file, the one data file whose rows it takes.
    """

    referenced: Mapping[str, str] = {}

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        kinds = data_file_with_partition(self._spec.partition_type(self._schema), 3)
        stored = [field for field in kinds.fields if field.field_id not in _ONLY_OF_VERSION_3]
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=manifest_entry_schema_with_data_file(2, StructType(*stored)),
            record_schema=manifest_entry_schema_with_data_file(2, kinds),
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        entry, file = super().prepare_entry(entry), entry.data_file
        names = [field.name for field in DATA_FILE_TYPE[2].fields]
        told = {name: file[at] for at, name in enumerate(names)}
        referenced = self.referenced.get(file.file_path)
        return ManifestEntry.from_args(
            status=entry.status,
            snapshot_id=entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=DataFile.from_args(3, **told, referenced_data_file=referenced),
        )


class Append(_Producer, _FastAppendFiles):
    """Files that come, in a manifest of their own."""


class MergingAppend(_Producer, _MergeAppendFiles):
    """Files that come, with small manifests merged."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        listed = super()._process_manifests(manifests)
        self.unlisted = sorted({*self._written_manifests} - {one.manifest_path for one in listed})
        return listed


class Exchange(_Producer, _OverwriteFiles):
    """Files for files, named one by one; also delete files go.

    pyiceberg looks for the manifests of files to be removed by a predicate on their partitions, one term per
    partition; that is slow for thousands, and finds nothing where a table has no partitions. Here each
    manifest is looked into. It also adds and removes no delete files, adds none of an earlier sequence
    number, and knows no snapshot that replaces files without changing rows.
    """

    data_sequence: int | None = None
    added_deletes: Sequence[tuple[DataFile, str | None]] = ()
    """Delete files that come, and of each the one data file whose rows it takes, if it is one."""

    def _manifests(self) -> list[ManifestFile]:
        snapshot = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        gone: dict[tuple[int, ManifestContent], list[ManifestEntry]] = {}
        kept: list[ManifestFile] = []
        for manifest in snapshot.manifests(self._io) if snapshot is not None else ():
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue
            entries = self.fetch_manifest_entry(manifest)
            stay = [entry for entry in entries if entry.data_file not in self._deleted_data_files]
            if len(stay) == len(entries):
                kept.append(manifest)
                continue
            kind = manifest.partition_spec_id, manifest.content
            gone.setdefault(kind, []).extend(
                entry for entry in entries if entry.data_file in self._deleted_data_files
            )
            if stay:
                kept.append(self._written(*kind, stay, ManifestEntryStatus.EXISTING))
        found = {entry.data_file for entries in gone.values() for entry in entries}
        if lacking := len(self._deleted_data_files - found):
            raise ValidationException(f"{lacking} files that were read are gone")
        removed = [self._written(*kind, some, ManifestEntryStatus.DELETED) for kind, some in gone.items()]
        return [*self._added(), *removed, *kept]

    def _added(self) -> list[ManifestFile]:
        found = []
        if self._added_data_files:
            with self.new_manifest_writer(self._transaction.table_metadata.spec()) as writer:
                for file in self._added_data_files:
                    writer.add_entry(self._added_entry(file, self.data_sequence))
            found.append(writer.to_manifest_file())
        by_spec: dict[int, list[DataFile]] = {}
        for file, _ in self.added_deletes:
            by_spec.setdefault(file.spec_id, []).append(file)
        for spec_id, files in by_spec.items():
            with self.new_manifest_writer(self.spec(spec_id), ManifestContent.DELETES) as writer:
                assert isinstance(writer, _DeletesWriter), "delete files have a manifest of their own"
                writer.referenced = {file.file_path: name for file, name in self.added_deletes if name}
                for file in files:
                    writer.add_entry(self._added_entry(file, None))
            found.append(writer.to_manifest_file())
        return found

    def _added_entry(self, file: DataFile, sequence: int | None) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=self._snapshot_id,
            sequence_number=sequence,
            file_sequence_number=None,
            data_file=file,
        )

    def _written(
        self,
        spec_id: int,
        content: ManifestContent,
        entries: list[ManifestEntry],
        status: ManifestEntryStatus,
    ) -> ManifestFile:
        """A manifest of files that the table has, or had."""
        deleted = status == ManifestEntryStatus.DELETED
        with self.new_manifest_writer(self.spec(spec_id), content) as writer:
            for entry in entries:
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=status,
                        snapshot_id=self._snapshot_id if deleted else entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        # pyiceberg sums up appends and overwrites only, and takes what comes for files of the present spec.
        metadata = self._transaction.table_metadata
        specs, limit = metadata.specs(), TableProperties.WRITE_PARTITION_SUMMARY_LIMIT
        most = metadata.properties.get(limit, str(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT))
        counted = SnapshotSummaryCollector(int(most))
        for file in (*self._added_data_files, *(file for file, _ in self.added_deletes)):
            counted.add_file(file, _schema_of(metadata, specs[file.spec_id]), specs[file.spec_id])
        for file in self._deleted_data_files:
            counted.remove_file(file, _schema_of(metadata, specs[file.spec_id]), specs[file.spec_id])
        number = self._parent_snapshot_id
        before = None if number is None else metadata.snapshot_by_id(number)
        summary = update_snapshot_summaries(
            Summary(Operation.OVERWRITE, **counted.build(), **snapshot_properties),
            before.summary if before is not None else None,
        )
        return Summary(self._operation, **summary.additional_properties)


class ManifestMerge(Exchange):
    """The same files in other manifests: small ones are merged, and large ones cut.

    Entries are put in order by partition, so that a reader which asks for some partitions opens few of them.
    """

    manifest_bytes: int = DEFAULT_MANIFEST_BYTES

    def _manifests(self) -> list[ManifestFile]:
        snapshot = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        found = list(snapshot.manifests(self._io)) if snapshot is not None else []
        by_path = {manifest.manifest_path: manifest for manifest in found}
        made: list[ManifestFile] = []
        for group in merged_manifests(found, self.manifest_bytes):
            entries: list[ManifestEntry] = []
            for file in group.files:
                entries += self.fetch_manifest_entry(by_path[file.path])
                first = by_path.pop(file.path)
            entries.sort(key=_partition_order)
            for at in range(group.num_files):
                low, high = (len(entries) * part // group.num_files for part in (at, at + 1))
                some = entries[low:high]
                if some:
                    kind = first.partition_spec_id, first.content
                    made.append(self._written(*kind, some, ManifestEntryStatus.EXISTING))
        return [*made, *by_path.values()]


def merged_manifests(manifests: Sequence[ManifestFile], manifest_bytes: int) -> list[RewriteGroup]:
    """Which manifests are written anew together, and into how many; as data files are packed.

    Parameters
    ----------
    manifests : sequence of ManifestFile
    manifest_bytes : int
        How large a manifest should be.
    """
    files = [
        TableFile(
            manifest.manifest_path,
            ((manifest.added_files_count or 0) + (manifest.existing_files_count or 0)) // LEAST_ENTRIES,
            manifest.manifest_length,
            f"{manifest.partition_spec_id} {manifest.content.value}",
        )
        for manifest in manifests
    ]
    sizing = FileSizing.of(manifest_bytes)
    return plan_bin_packing(files, sizing=sizing, group_bytes=sum(file.bytes for file in files) + 1)


def _partition_order(entry: ManifestEntry) -> tuple[tuple[bool, Any], ...]:
    """By partition, nulls first."""
    partition = entry.data_file.partition
    values = [partition[at] for at in range(len(partition))]
    return tuple((value is not None, value) for value in values)
