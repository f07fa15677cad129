"""The formats that rows of a catalog can be exported in."""

from __future__ import annotations

from enum import StrEnum

from hipslake.errors import SpecError


class ExportFormat(StrEnum):
    """The formats of exports."""

    PARQUET = "parquet"
    CSV = "csv"
    FITS = "fits"
    VOTABLE = "votable"

    @property
    def ending(self) -> str:
        """What files of the format are called: after the last dot."""
        return "vot" if self is ExportFormat.VOTABLE else self.value

    @classmethod
    def of(cls, uri: str, given: str | None = None) -> ExportFormat:
        """The format that is given, or else the one that the ending of a URI says.

        Raises
        ------
        SpecError
            There is no such format, or the ending says none.

        Examples
        --------
        >>> ExportFormat.of("s3://bucket/bright.FITS").value
        'fits'
        """
        name = (given or uri.rpartition("/")[2].rpartition(".")[2]).lower()
        try:
            return cls("votable" if name == "vot" else name)
        except ValueError:
            what = f"format {given!r}" if given else f"the ending of {uri!r}"
            raise SpecError(f"export: {what} is none of {', '.join(cls)}; give a format") from None
