"""A contender that is a program in another language: built, fed and looked at from outside."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

from mta.lab.experiments.experiment import Row
from mta.monoids.base import Array
from mta.process_memory import memory_figure

#: What a program says when it is ready for the numbers.
READY = "ready"
#: Seconds that one that has closed its output, or said what was not asked, has to end by itself.
PATIENCE = 2.0


class Broken(Exception):
    """A program could not be built, or ended before it had a result."""


def build(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["without a word"]
        first = next((line for line in said if "error" in line), said[0])
        raise Broken(f"{command[0]} ended with {done.returncode}: {first}")


def measured(command: Sequence[str], batches: Iterable[Array] = ()) -> Row:
    """The seconds and the last result that a program says of the numbers it gets, and its memory."""
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as program,
    ):
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            if _line(program.stdout) != READY:
                raise _broken(command, program, said)
            before = memory_figure("VmRSS", program.pid) or 0
            try:
                for batch in batches:
                    program.stdin.write(batch.tobytes())
                program.stdin.flush()
            except BrokenPipeError:
                raise _broken(command, program, said) from None
            seconds, _, last = _line(program.stdout).partition(" ")
            if not last:
                raise _broken(command, program, said)
            return {
                "seconds": float(seconds),
                "last": float(last),
                "held_bytes": (memory_figure("VmRSS", program.pid) or 0) - before,
                "stored_bytes": 0,
                "program_bytes": memory_figure("VmHWM", program.pid) or 0,
            }
        except BaseException:
            program.kill()
            raise


def _line(output: IO[bytes]) -> str:
    return output.readline().decode().strip()


def _broken(command: Sequence[str], program: subprocess.Popen[bytes], said: IO[bytes]) -> Broken:
    """It is about to end, or does not do what is asked of it."""
    try:
        code = program.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        program.kill()
        code = program.wait()
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines() or ["without a word"]
    return Broken(f"{command[0]} ended with {code}: {lines[-1]}")
