"""Places that are typed into forms: paths and URIs of all sorts."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hipslake.sources.file_listing import list_files
from hipslake.specs.environment import expand
from hipslake.specs.export_formats import ExportFormat
from hipslake.steps.cube.cube_place import cube_root, new_root
from hipslake.steps.export.outputs import output_uri
from hipslake.storage.folder import Storage

from tests.fuzz.mutation import TEXTS, respelt
from tests.fuzz.target import Case, Target, refusals
from tests.fuzz.typed import typed

_PLACES = (
    *(
        "bright.parquet",
        "a/b/c.csv",
        "../catalogs/x.parquet",
        "/tmp/x.fits",
        "s3://bucket/key.parquet",
        "sky",
    ),
    *(
        "{folder}/exports/x.parquet",
        "{folder}/catalogs/stars/metadata.json",
        "file://{folder}/x.csv",
        "~/x.csv",
    ),
    *(
        "memory://a/../b",
        "{folder}//exports/./../cubes/sky/x",
        "s3://b/../../x",
        "exports/x/..",
        "a/%2e%2e/b",
    ),
)


def _place(random: Random) -> Case:
    text = random.choice(_PLACES)
    if random.random() < 0.8:
        text = respelt(
            random, text, (*TEXTS, "..", "/", "//", "://", "file", "memory", "${HOME}", "${NOPE}", "*", "[")
        )
    text = text.replace("s3://", "memory://").replace("http", "memory")  # nothing is asked over a network
    return Case(text.encode("utf-8", "surrogatepass"))


def _read_place(case: Case, folder: Path) -> None:
    """A place is refused, or it is one where a user's things may lie."""
    text = typed(case).replace("{folder}", str(folder))
    for name in ("catalogs/stars", "cubes/sky", "exports"):
        (folder / name).mkdir(parents=True)
    with refusals() as tried:
        uri = tried(lambda: output_uri(str(folder), text))
        if uri is not None:
            inside = Path(uri).resolve().is_relative_to(folder.resolve()) if "://" not in uri else False
            assert not inside or Path(uri).resolve().is_relative_to(folder.resolve() / "exports"), uri
            Storage.of_file(uri)[0].exists("x")
        tried(lambda: cube_root(str(folder), text).exists("metadata.json"))
        tried(lambda: new_root(str(folder), text, Storage.at(folder / "cubes" / "sky")))
        if not text.startswith("/") or text.startswith(str(folder)):  # devices do not end
            tried(lambda: list_files(f"{folder}/{text}"))
            tried(lambda: expand(text))
        tried(lambda: ExportFormat.of(text))


TARGET = Target("place", _place, _read_place, share=3)
