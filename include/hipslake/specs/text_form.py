"""Models that users write as one text: `1M rows`, `bucket[16](id)`, `ts desc`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from pydantic import GetJsonSchemaHandler, model_serializer, model_validator
from pydantic_core import CoreSchema

from hipslake.specs.base import Frozen


class TextForm(Frozen):
    """A model that is read from a text, and printed as one that gives it back."""

    about: ClassVar[str]
    """What it says, for the JSON Schema."""

    examples: ClassVar[tuple[str, ...]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it from its text; `ValueError` (pydantic's) says what is wrong with it."""
        return cls.model_validate(text)

    @classmethod
    @abstractmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Return what the fields of a text are; raise `ValueError` where it has none."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        return cls.fields_of(given) if isinstance(given, str) else given

    @model_serializer
    def _to_text(self) -> str:
        return str(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "title": cls.__name__,
            "description": cls.about,
            "examples": list(cls.examples),
        }
