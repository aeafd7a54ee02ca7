"""One case of an experiment, in its own process: `python -m … NAME CASE DIRECTORY`.

CASE is JSON. DIRECTORY gets how far the case is now and then, and what came of it in the end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mta.lab.experiments.registry import experiment
from mta.lab.own_process import PROGRESS, RESULT, write_json
from mta.process_memory import memory_figure

#: Seconds between two looks whether the command is still there.
LOOK = 1.0


def main(name: str, case: dict[str, Any], directory: Path) -> int:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def tell(progress: dict[str, Any]) -> None:
        write_json(directory / PROGRESS, progress)

    result: dict[str, Any]
    try:
        result = {"rows": experiment(name).measure(case, tell)}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
        if not isinstance(error, MemoryError):
            write_json(directory / RESULT, result)
            raise
    write_json(directory / RESULT, {**result, "peak": memory_figure("VmHWM") or 0})
    return 0


def _end_with(parent: int) -> None:
    """Ends this process when the command that started it is gone."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os.killpg(0, 9)  # with the server that it may have started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))
