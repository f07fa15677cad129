"""No value of an option is passed over in silence: several are one, or the command line is wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from hipslake.cli.main import COMMANDS, _parser
from hipslake_airflow import upgrade_check

from tests.cli.conftest import Command

_MANY = {"--index", "--margin", "--columns", "--right-columns", "--filter", "--right-filter", "--key"}


def options(command: str) -> list[argparse.Action]:
    """The options of a command that take a value."""
    [commands] = [each for each in _parser([command])._actions if each.dest == "command"]
    found = commands.choices[command]._actions  # type: ignore[index]
    return [action for action in found if action.option_strings and action.nargs != 0]


def value(action: argparse.Action, other: bool) -> list[str]:
    text = "2" if other else "1"
    return [list(action.choices)[other]] if action.choices else [text]


CASES = [(command, action) for command in COMMANDS for action in options(command)]
ONE = [(name, action) for name, action in CASES if action.option_strings[-1] not in _MANY]
SEVERAL = [(name, action) for name, action in CASES if action.option_strings[-1] in _MANY]


def ids(cases: list[tuple[str, argparse.Action]]) -> list[str]:
    return [f"{name} {action.option_strings[-1]}" for name, action in cases]


@pytest.mark.parametrize(("name", "action"), ONE, ids=ids(ONE))
def test_an_option_of_one_value_is_given_once(command: Command, name: str, action: argparse.Action) -> None:
    option = action.option_strings[-1]
    for one, other in ((False, True), (False, False)):
        answer = command(name, option, *value(action, one), option, *value(action, other))
        assert answer.code == 2
        assert f"{'/'.join(action.option_strings)}: is given twice; give it once" in answer.err
        assert answer.out == ""


@pytest.mark.parametrize(("name", "action"), SEVERAL, ids=ids(SEVERAL))
def test_an_option_of_several_values_has_all_of_them(name: str, action: argparse.Action) -> None:
    option = action.option_strings[-1]
    found = getattr(_parser([name]).parse_args([name, "x", option, "1", option, "2"]), action.dest)
    assert found in ("(1) and (2)", ["1", "2"], [1.0, 2.0])


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_filter_is_no_filter(command: Command, made_warehouse: Path, text: str) -> None:
    """As of a variable of a shell that is not set: all rows are not what was asked for."""
    for before in ([], ["--filter", "mag < 15"]):
        answer = command("read", made_warehouse / "catalogs" / "survey", *before, "--filter", text, "--count")
        assert (answer.code, answer.out) == (2, "")
        assert "--filter: is empty; leave it out, or write a filter" in answer.err


def test_columns_of_several_options_are_all_read(command: Command, made_warehouse: Path) -> None:
    place = made_warehouse / "catalogs" / "survey"
    several = command("read", place, "--columns", "id,ra", "--columns", "dec", "--limit", 2)
    assert several == command("read", place, "--columns", "id,ra,dec", "--limit", 2)
    assert several.out.startswith('"id","ra","dec"\n')


def test_the_check_of_an_upgrade_takes_all_folders_and_one_warehouse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--no-database", "--specs", str(tmp_path / "a"), "--specs", str(tmp_path / "b")]
    assert upgrade_check.main([*given, "--warehouse", str(tmp_path)]) == 0
    assert f"the specs in {tmp_path / 'a'}, {tmp_path / 'b'} were read" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        upgrade_check.main([*given, "--warehouse", str(tmp_path), "--warehouse", str(tmp_path)])
    assert "--warehouse: is given twice" in capsys.readouterr().err
