"""Fields that several forms have."""

from __future__ import annotations

from airflow.sdk import Param

THRESHOLD_PATTERN = r"^[0-9][0-9_]*(\.[0-9]+)? *([kKMG]? *rows?|[kKMG]i?B|B|bytes?)$"
MOMENT_PATTERN = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$"
_MAX_REGION = 100_000  # letters
_REGION_HELP = (
    "cone 56.75 24.12 3deg, box ra 350..10 dec -5..5, polygon 10 0, 20 0, 15 10, moc 3/1-4 5/7, moc URI of a "
    "file, pixels 2/5 3/100. Empty: all of it."
)
_MAX_FILTERS = 10_000
_FILTERS_HELP = (
    "Which rows: phot_g_mean_mag < 12 and ra_error is not null. Comparisons, in (...), between, is null, is "
    "nan, and, or, not, parentheses. Empty: all."
)
_MAX_WAIT_MINUTES = 7 * 24 * 60
LONGEST_URI = 2000  # characters


def threshold_field(otherwise: str) -> Param:
    """How large a leaf may be; `otherwise` says what holds if it is empty."""
    return Param(
        None,
        type=["null", "string"],
        pattern=THRESHOLD_PATTERN,
        maxLength=40,
        title="Threshold",
        description=(
            "The largest leaf allowed, in rows or in bytes of its file: 20000 rows, 1M rows, 64 MiB. "
            + otherwise
        ),
    )


def force_field(unchanged: str) -> Param:
    """Whether a version is published though nothing has changed; `unchanged` says what."""
    return switch_field("Force", f"Publish a new version even if {unchanged}.")


def wait_field(then: str = "") -> Param:
    """How long the sensor waits; `then` says what comes if it has waited in vain."""
    return Param(
        60,
        type="number",
        minimum=0,
        maximum=_MAX_WAIT_MINUTES,
        title="Wait for files (minutes)",
        description="How long to wait for the first source file. No worker slot is held meanwhile." + then,
    )


def window_fields() -> dict[str, Param]:
    """The start and end of the time window of a run."""
    return {
        "window_start": moment_field(
            "Window start", "The time that the run stands for. Empty: the last interval of the schedule."
        ),
        "window_end": moment_field("Window end", "The end of that time. Empty: open."),
    }


def moment_field(title: str, help_text: str) -> Param:
    """One end of a window."""
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        pattern=MOMENT_PATTERN,
        title=title,
        description=help_text,
        section="Window",
    )


def region_field(of_what: str) -> Param:
    """A part of the sky; `of_what` says what is taken of it."""
    return text_field("Region", f"{of_what}: {_REGION_HELP}", _MAX_REGION)


def columns_field(otherwise: str = "all") -> Param:
    """Names of columns; `otherwise` says what holds if there are none."""
    return listed_columns_field("Columns", f"One per line. Empty: {otherwise}.")


def listed_columns_field(title: str, help_text: str) -> Param:
    """Names of columns, one per line, which may be left out."""
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "minLength": 1},
        title=title,
        description=help_text,
    )


def filters_field() -> Param:
    """Which rows of a catalog, as a text."""
    return text_field("Filters", _FILTERS_HELP, _MAX_FILTERS)


def text_field(title: str, help_text: str, longest: int) -> Param:
    """A text of some lines that may be empty, of at most `longest` letters."""
    return Param(
        None,
        type=["null", "string"],
        maxLength=longest,
        title=title,
        description=help_text,
        format="multiline",
    )


def uri_field(title: str, help_text: str) -> Param:
    """A path or URI that has to be given."""
    return Param(type="string", minLength=1, maxLength=LONGEST_URI, title=title, description=help_text)


def switch_field(title: str, help_text: str, *, on: bool = False) -> Param:
    """Whether something is done, by default as `on` says."""
    return Param(on, type="boolean", title=title, description=help_text)
