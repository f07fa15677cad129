"""The form of leaf files that others wrote: how they differ from ours, and what is told of that to readers.

Readers of leaf files are handed the schema of the column group, in tasks and in other processes too. So the
form travels in the metadata of its `_healpix_29` field; a schema without a form is that of our own files.
What is given to users never has it: `given_schema`.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

import pyarrow as pa

from hipslake.sphere.pixels import HEALPIX_COLUMN

_FORM = b"hipslake.leaf_form"


class LeafForm(NamedTuple):
    """How the leaf files of a catalog of others are read.

    Attributes
    ----------
    healpix : {"stored", "computed", "none"}
        Whether `_healpix_29` is a column of the files, or follows from the positions, or is not to be had, as
        the rows have no positions (associations and indices).
    ra, dec : str
        The columns with ICRS degrees; "" where there are none.
    folders : bool
        Whether a leaf is a folder of Parquet files.
    stamps : str
        Path of the sidecar with the stamps of the files (`hipslake.catalog.leaf_stamps`); "" for none.
    """

    healpix: Literal["stored", "computed", "none"]
    ra: str
    dec: str
    folders: bool
    stamps: str = ""


def with_form(schema: pa.Schema, form: LeafForm) -> pa.Schema:
    """The schema of leaf files in a form; `_healpix_29` is among its fields unless there is none."""
    if form.healpix == "none":
        field = schema.field(0)
        return schema.set(0, field.with_metadata({**(field.metadata or {}), _FORM: _text(form)}))
    at = schema.get_field_index(HEALPIX_COLUMN)
    return schema.set(at, schema.field(at).with_metadata({_FORM: _text(form)}))


def form_of(schema: pa.Schema) -> LeafForm | None:
    """The form of the leaf files of a schema; None: they are ours."""
    for field in schema:
        if field.metadata and (text := field.metadata.get(_FORM)) is not None:
            return LeafForm(*json.loads(text))
    return None


def given_field(field: pa.Field) -> pa.Field:
    """A field as users get it."""
    if not field.metadata or _FORM not in field.metadata:
        return field
    return field.with_metadata({key: text for key, text in field.metadata.items() if key != _FORM} or None)


def given_schema(schema: pa.Schema) -> pa.Schema:
    """A schema as users get it, and as files of ours are written with."""
    return pa.schema(list(map(given_field, schema)), schema.metadata)


def in_form_of(schema: pa.Schema, leaves: pa.Schema) -> pa.Schema:
    """Some columns of leaf files as a schema by which they can be read: with the form of the files.

    Parameters
    ----------
    schema : pyarrow.Schema
        At least a column.
    leaves : pyarrow.Schema
        Of the files.
    """
    form = form_of(leaves)
    if form is None:
        return schema
    field = schema.field(0)
    return schema.set(0, field.with_metadata({**(field.metadata or {}), _FORM: _text(form)}))


def _text(form: LeafForm) -> bytes:
    return json.dumps(form).encode()
