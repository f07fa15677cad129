"""Files that are damaged, of another kind, or of a schema that nobody expects."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from tests.foreign.doors import GOOD


def stored(table: pa.Table, **options: object) -> bytes:
    """A table as Parquet."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def as_orc(table: pa.Table) -> bytes:
    """A table as ORC."""
    sink = io.BytesIO()
    orc.write_table(table, sink)
    return sink.getvalue()


def with_codec(codec: int) -> bytes:
    """A file that says of the pages of `id` that they are compressed by another codec than they are."""
    plain = stored(GOOD, compression="snappy")
    # ColumnMetaData of Thrift's compact protocol: the path in the schema (field 3), then the codec (field 4).
    path, snappy = b"\x19\x18\x02id\x15", b"\x02"
    assert plain.count(path + snappy) == 1
    return plain.replace(path + snappy, path + bytes([codec * 2]))


def damaged() -> dict[str, bytes]:
    """Content that no reader can make rows of, by what is wrong with it."""
    large = pa.table(
        {"id": range(3000), "ra": [float(n) for n in range(3000)], "dec": [0.5] * 3000, "p": [0] * 3000}
    )
    whole = stored(large, use_dictionary=False, compression="snappy")
    turned = bytearray(whole)
    turned[60:400] = bytes(255 - byte for byte in turned[60:400])
    footer = whole[:-8]
    return {
        "zeros": bytes(1000),
        "magic alone": b"PAR1",
        "magic twice": b"PAR1PAR1",
        "no end": whole[:-8],
        "half": whole[: len(whole) // 2],
        "text": b"id,ra,dec,p\n1,2,3,4\n",
        "orc": as_orc(GOOD),
        "gzip": b"\x1f\x8b\x08\x00" + bytes(100),
        "footer longer than the file": footer + b"\xff\xff\xff\x7fPAR1",
        "footer of zeros": whole[:-300] + bytes(292) + whole[-8:],
        "pages": bytes(turned),
        "encrypted": whole[:-4] + b"PARE",
        "lzo": with_codec(3),
        "unknown codec": with_codec(40),
    }


def odd_schemas() -> dict[str, bytes]:
    """Whole files that may be read or refused."""
    made = {
        "column twice": pa.Table.from_arrays([*GOOD.columns, GOOD["id"]], names=[*GOOD.column_names, "id"]),
        "no name": GOOD.append_column("", GOOD["id"]),
        "names with dots": GOOD.append_column("a.b", GOOD["id"]),
        "names of odd letters": GOOD.append_column("銀\u200b河 \"'`%s{}", GOOD["id"]),
        "names alike but for case": GOOD.append_column("ID", GOOD["id"]),
        "reserved name": GOOD.append_column("_healpix_29", GOOD["id"]).append_column("_row", GOOD["id"]),
        "positions are texts": GOOD.set_column(1, "ra", GOOD["ra"].cast(pa.string())),
        "positions are lists": GOOD.set_column(1, "ra", [[[1.0]] * 10]),
        "numbers are lists": GOOD.set_column(0, "id", [[[1, 2]] * 10]),
        "numbers are structs": GOOD.set_column(0, "id", [[{"a": 1}] * 10]),
        "partition is a list": GOOD.set_column(3, "p", [[[1]] * 10]),
        "partition is a text": GOOD.set_column(3, "p", [["x"] * 10]),
        "column missing": GOOD.drop_columns(["p"]),
        "all others missing": GOOD.select(["id"]),
        "no column": GOOD.select([]),
        "no row": GOOD.slice(0, 0),
        "nulls": pa.table({name: pa.nulls(10) for name in GOOD.column_names}),
        "other columns": pa.table({"x": range(10)}),
        "deep": GOOD.append_column("s", [[{"a": [{"b": [["k"], None]}]}] * 10]),
        "struct of nothing": GOOD.append_column("s", pa.array([{}] * 10, pa.struct([("a", pa.null())]))),
        "half floats": GOOD.append_column("h", GOOD["ra"].cast(pa.float16())),
        "durations": GOOD.append_column("d", GOOD["id"].cast(pa.duration("us"))),
        "uuids": GOOD.append_column("u", pa.array([bytes(16)] * 10, pa.uuid())),
        "views": GOOD.append_column("v", pa.array(["a text longer than a view"] * 10, pa.string_view())),
        "wide decimals": GOOD.append_column("w", pa.array([1] * 10, pa.decimal256(70, 2))),
        "unsigned": GOOD.append_column("n", pa.array([2**64 - 1] * 10, pa.uint64())),
        "dictionaries": GOOD.append_column("k", pa.array(["a", None] * 5).dictionary_encode()),
        "tensors": GOOD.append_column("f", tensors()),
        "json": GOOD.append_column("j", pa.array(['{"a": 1}'] * 10, pa.json_())),
        "dates in milliseconds": GOOD.append_column("m", pa.array([86_400_000] * 10, pa.date64())),
        "times in seconds": GOOD.append_column("c", pa.array([1] * 10, pa.time32("s"))),
    }
    return {name: stored(table) for name, table in made.items()}


def tensors() -> pa.Array:
    """Arrays of two by two numbers."""
    kind = pa.fixed_shape_tensor(pa.float64(), [2, 2])
    return pa.ExtensionArray.from_storage(kind, pa.array([[1.0, 2.0, 3.0, 4.0]] * 10, kind.storage_type))


DAMAGED = sorted(damaged())
ODD = sorted(odd_schemas())
