"""What every model of a spec, request, report or metadata file shares."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from hipslake.errors import SpecError
from hipslake.specs.mistakes import keys_alone, mistakes_of

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"
FORM_NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}(?!\n)$"
"""The same for JSON Schemas: Python's `$` also matches before a final newline."""
_SomeModel = TypeVar("_SomeModel", bound=BaseModel)
_OF_RUNS = frozenset({"airflow", "deadline_minutes", "task_hours"})
_MOST = 1 << 63

Minutes = Annotated[float, Field(gt=0, le=525_600, allow_inf_nan=False)]
"""A time of up to a year."""

Hours = Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)]
"""A time of up to a year."""


Column = Annotated[str, Field(min_length=1)]
"""The name of a column."""


def _one_or_several(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


ColumnNames = Annotated[tuple[Column, ...], BeforeValidator(_one_or_several)]
"""Names of columns; one may stand alone."""


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys: a typing mistake in a file is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def check_plain(given: Any, place: str = "") -> None:
    """Raise `ValueError` where plain values hold what machines cannot; the message names the place.

    YAML and JSON know integers of any size and texts with zeros; Arrow, Parquet and file systems do not.
    """
    if isinstance(given, dict):
        for key, value in given.items():
            check_plain(value, f"{place}.{key}" if place else str(key))
    elif isinstance(given, list | tuple):
        for at, value in enumerate(given):
            check_plain(value, f"{place}[{at}]")
    elif isinstance(given, int) and not -_MOST <= given < _MOST:
        raise ValueError(f"{place}: is an integer that 64 bits do not hold; write a smaller one")
    elif isinstance(given, str) and "\0" in given:
        raise ValueError(f"{place}: holds a zero character; take it out")


_Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")]
_Labels = Annotated[tuple[_Label, ...], BeforeValidator(_one_or_several)]
_Functions = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")], ...],
    BeforeValidator(_one_or_several),
]


class AirflowSpec(Frozen):
    """Settings of all DAGs of a spec, on top of those of `spec_dags`; none changes what is published.

    Attributes
    ----------
    owner : str, optional
        Of the tasks; the UI shows it with the DAG.
    tags : tuple of str
        Beside those that each DAG has.
    pool, queue : str, optional
        Of the tasks.
    priority : int, optional
        Airflow's `priority_weight` of the tasks.
    retries : int, optional
        How often a task is tried again.
    on_failure, on_retry, on_success : tuple of str
        Functions that Airflow calls with a task's context, as `module.function`; one may stand alone.
    """

    owner: _Label | None = None
    tags: _Labels = ()
    pool: _Label | None = None
    queue: _Label | None = None
    priority: Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)] | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    on_failure: _Functions = ()
    on_retry: _Functions = ()
    on_success: _Functions = ()


class NamedSpec(Frozen):
    """What a file of `include/specs` holds; its name is the file's, and that of what comes of it."""

    model_config = ConfigDict(hide_input_in_errors=True)  # which may hold a secret by mistake

    spec_folder: ClassVar[str]
    """The folder of such specs in a deployment, beside those of others."""

    of_no_outcome: ClassVar[frozenset[str]] = frozenset()
    """Fields that decide when something is done, or what becomes of it later, but not what it is."""

    counted_if_said: ClassVar[frozenset[str]] = frozenset()
    """Fields that older specs have not: with their defaults, the fingerprint is the one of before."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    deadline_minutes: Minutes | None = None  # from when a run is queued until it should have ended
    task_hours: Hours | None = None  # how long a task may work, at most what the deployment says; None: that
    airflow: AirflowSpec | None = None

    @model_validator(mode="after")
    def _holds_plain_values(self) -> Self:
        check_plain(self.model_dump(mode="json"))
        return self

    def with_overrides(self, **given: Any) -> Self:
        """Return this spec with a run's parameters put in, validated again; None keeps what the spec says.

        Raises
        ------
        SpecError
            When a parameter is wrong; the message says what would be right.
        """
        changed = {name: value for name, value in given.items() if value is not None}
        try:
            return self.model_validate(self.model_dump(mode="json") | changed)
        except ValidationError as error:
            raise SpecError(f"{self.name}: {first_mistake(error, otherwise='parameters')}") from None

    def fingerprint_text(self) -> str:
        """Return the canonical JSON of all that decides what is written."""
        fields = type(self).model_fields
        unsaid = {name for name in self.counted_if_said if getattr(self, name) == fields[name].get_default()}
        exclude = {*_OF_RUNS, *self.of_no_outcome, *unsaid}
        data: dict[str, Any] = self.model_dump(mode="json", exclude=exclude)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def validated(model: type[_SomeModel], given: object, where: str) -> _SomeModel:
    """Return a model of what a user gives.

    Parameters
    ----------
    model : type
    given : object
        Its fields.
    where : str
        What it stands for, as the message begins.

    Raises
    ------
    SpecError
        It is none; the message says what does not fit, and what would.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise SpecError(f"{where}: {first_mistake(error)}") from None


def repeated(names: Iterable[str]) -> list[str]:
    """The names that stand more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def first_mistake(
    error: ValidationError, *, within: str = "", otherwise: str = "", shows_values: bool = False
) -> str:
    """The first mistake that a validation found, in words: where, and what.

    Parameters
    ----------
    error : pydantic.ValidationError
    within : str
        What the model stands for, where that is a part of something larger.
    otherwise : str
        What to name where the mistake is in no single field.
    shows_values : bool
        Whether the value that does not fit is shown; by default not, since it may hold a secret.
    """
    first = mistakes_of(error.errors(), keys_alone, shows_values=shows_values)[0]
    where = ".".join(str(part) for part in (within, *first.place) if part != "") or otherwise
    return f"{where}: {first.text}" if where else first.text


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
