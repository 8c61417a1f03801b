"""``python -m hbus_console.spark_fetch``, as the Makefile starts it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psutil

from hbus_console.spark_fetch.beside import Beside, Ended
from hbus_console.spark_fetch.fetch import Fetch, usual_umask
from hbus_console.spark_fetch.progress import Phase
from hbus_console.state import named_state
from hbus_console.supervisor.console import Console

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Foreground:
    """Who waits for it on a terminal hears of what is unusual alone."""

    def line(self, text: str) -> None:
        if text.startswith("Spark "):
            print(text, flush=True)

    def phase(self, phase: Phase, package: str = "", done: int = 0, total: int = 0) -> None:
        """They wait anyway."""

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def main() -> int:
    """0 once Spark is installed, 1 where it is not, and 0 where nobody waits for it any more."""
    words = argparse.ArgumentParser(prog="python -m hbus_console.spark_fetch", description=__doc__)
    words.add_argument("stamp", type=Path, help="the file that says it is installed")
    words.add_argument("--beside", type=int, metavar="PID", help="the supervisor to begin after and to end with")
    words.add_argument("--requirements", required=True)
    words.add_argument("--constraints", required=True)
    given = words.parse_args()
    needs = ("-r", given.requirements, "-c", given.constraints)
    fetch = Fetch(given.stamp.absolute(), needs, usual_umask())
    for number in _ENDING:
        signal.signal(number, _end)
    if given.beside is not None:
        # What it notes, and its log, are for this account alone.
        os.umask(0o077)
        with suppress(Ended, psutil.NoSuchProcess):
            Beside(named_state(), given.beside, Console()).run(fetch)
        return 0
    try:
        failed = fetch.run(_Foreground(), os.environ)
    except Ended:
        return 130
    if failed:
        print(f"hbus: Spark could not be installed: {failed}", file=sys.stderr)
    return 1 if failed else 0


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # What is left is tidying up, which is not to be broken off.
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Ended


if __name__ == "__main__":
    sys.exit(main())
