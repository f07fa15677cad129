"""The entry of the command line: which commands there are, and how their failures are told."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from hipslake.cli.repeated_options import OneValueParser
from hipslake.engine.own_process import end_process, import_when_used, leave_pandas_out, tune_command
from hipslake.library_version import __version__

OK, FAILED, USAGE, NOTHING_TO_DO, TRY_AGAIN, INTERRUPTED = 0, 1, 2, 3, 4, 130

COMMANDS = {
    "ingest": "rows of files become a catalog, or one more increment of it",
    "match": "cross-match two catalogs, or join them on a key: publish, write to a file, or print",
    "sink": "rows of files or of a catalog go into an Iceberg or Delta table",
    "compact": "files of a table are brought together, or its rows clustered along a curve",
    "ls": "the catalogs and cubes of a warehouse, or the columns of a catalog",
    "versions": "what each version of a catalog brought",
    "diff": "how two versions of a catalog differ",
    "changes": "the rows that were inserted, updated and deleted between two versions of a catalog",
    "read": "rows of a catalog: print them, count them, or write them to a file",
    "hips": "a catalog becomes tiles that Aladin shows: a HiPS catalogue",
    "verify": "read everything of a catalog back, and check it",
    "specs": "look whether the specs of a deployment can be read",
    "doctor": "what is wrong with this installation, its settings, its warehouse and Spark",
}
"""What each command does; `hipslake.cli.<name>_command` is its module."""
_OF_TABLES = ("sink", "compact")  # they make no times in nanoseconds into values of Python
SELDOM_USED = ("pyiceberg.expressions.parser", "strictyaml")
"""What libraries of tables import and commands seldom use: readers of filters and of a configuration file."""

_CODES = """\
exit codes:
  0    it went well, also where there was nothing to do
  1    it failed, or something is wrong with what was looked at
  2    the command line is wrong
  3    there was nothing to do, and --exit-code asked for it to be told so
  4    it failed, and may pass when it is tried again: the store did not answer, or others were first
  130  it was interrupted; nothing is half published
"""


def run() -> NoReturn:
    """Run the command of this process, and end with its exit code."""
    end_process(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0 if it went well, 1 if it failed, 2 if the arguments are wrong, 3 and 4 as `hipslake --help` says,
        130 if it was interrupted.
    """
    is_own_process = arguments is None
    if is_own_process:
        tune_command()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(arguments)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:  # argparse has said what is wrong, or the help
        return stop.code if isinstance(stop.code, int) else USAGE
    if options.command is None:
        parser.print_help()
        return OK
    _log_to_stderr(options)
    if is_own_process and options.command in _OF_TABLES:
        leave_pandas_out()
        import_when_used(*SELDOM_USED)
    try:
        code: int = import_module(f"hipslake.cli.{options.command}_command").run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("hipslake: interrupted", file=sys.stderr)
        return INTERRUPTED
    except argparse.ArgumentError as error:
        print(f"hipslake {options.command}: {error}", file=sys.stderr)
        return USAGE
    except Exception as error:
        return _told(error, options)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the command that is asked for has its arguments."""
    parser = OneValueParser(
        prog="hipslake",
        description="Survey files become spatially partitioned, versioned HEALPix catalogs.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hipslake {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    asked = next((each for each in arguments if not each.startswith("-")), None)
    for name, told in COMMANDS.items():
        command = commands.add_parser(name, help=told, description=told, allow_abbrev=False)
        command.add_argument(
            "--warehouse",
            metavar="PLACE",
            help="folder or URI that holds the catalogs; by default $HIPSLAKE_WAREHOUSE",
        )
        command.add_argument("--json", action="store_true", help="print JSON")
        command.add_argument("-v", "--verbose", action="store_true", help="log what is done to stderr")
        command.add_argument("--debug", action="store_true", help="with the traceback of a failure")
        if name == asked:
            import_module(f"hipslake.cli.{name}_command").add_arguments(command)
    return parser


def _log_to_stderr(options: argparse.Namespace) -> None:
    level = logging.INFO if options.verbose or options.debug else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="hipslake: %(message)s", force=True)
    for noisy in ("py4j", "botocore", "aiobotocore", "fsspec", "matplotlib"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _told(error: Exception, options: argparse.Namespace) -> int:
    """Say why a command has failed, and return its exit code."""
    from hipslake.errors import HipslakeError

    expected = isinstance(error, HipslakeError | OSError)
    retryable = isinstance(error, HipslakeError) and error.retryable
    if options.debug or not expected:
        traceback.print_exception(error)
    message = str(error) if expected else f"{error}; this is a bug of hipslake: please report it"
    if options.json:
        failure = {"kind": type(error).__name__, "message": message, "retryable": retryable}
        print(json.dumps({"error": failure}), file=sys.stderr)
    else:
        again = " (it may pass when it is tried again)" if retryable else ""
        print(f"hipslake {options.command}: {type(error).__name__}: {message}{again}", file=sys.stderr)
    return TRY_AGAIN if retryable else FAILED
