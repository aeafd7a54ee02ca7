"""The `mta` command. A subcommand imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

import mta
from mta.encoding.untrusted import printable

#: Exit codes: a mistake of the user's or of what was named, and Ctrl-C.
MISTAKE, INTERRUPTED = 2, 130

#: Modules that add subcommands, in the order of the help. They are imported by name: nothing imports the lab.
COMMANDS = ("mta.cli.commands", "mta.lab.commands")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; `--help` has the rest."""
        self.exit(MISTAKE, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """Looks the version up only if it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"mta-windows {mta.__version__}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    _open_streams()
    try:
        code = _run(arguments)
    finally:
        error = _end_output()
    if error is None or isinstance(error, BrokenPipeError):
        return code or int(error is not None)
    return _fail(f"the output could not be written: {error}", MISTAKE)


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        return run(options) or 0
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError as error:
        if _after_interrupt(error):
            return _fail("interrupted", INTERRUPTED)
        return 1  # the reader of our output went away
    except _mistakes() as error:
        if os.environ.get("MTA_TRACEBACK"):
            raise
        return _fail(str(error), MISTAKE)


def _after_interrupt(error: BaseException | None) -> bool:
    """Whether an error came while Ctrl-C was being obeyed, which also ends those who read our output."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _open_streams() -> None:
    """Whatever the caller has closed, what is printed goes nowhere else, and every text can be printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or else a file of a store would get this number
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _end_output() -> OSError | None:
    """Writes what is left of the output; why that was not possible, if so."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would complain once more at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mta", description="Sliding-window aggregation for windows bigger than the machine."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        import_module(module).add(commands)
    return parser


def _mistakes() -> tuple[type[Exception], ...]:
    """The errors whose message is for the user. Any other error is ours and keeps its traceback."""
    from mta.cli.errors import CommandFailed
    from mta.errors import WindowError
    from mta.monoids.expressions import BadExpression
    from stores import StoreError

    return (CommandFailed, StoreError, WindowError, BadExpression, OSError)


def _fail(message: str, code: int) -> int:
    print(f"mta: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
