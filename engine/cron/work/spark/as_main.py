"""An application in the place of the program that was started: what it sees is what Python shows a program."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import TracebackType

from engine.cron.work.spark.telling import Telling


def main() -> None:
    """Run it, and end as it ends. Whatever hinders the telling, it runs."""
    pipe, application = sys.argv[1:3]
    sys.argv[:3] = [application]
    sys.path[0] = str(Path(application).parent)
    telling = Telling(pipe)
    telling.start()
    try:
        _run(application)
    except Exception as error:  # noqa: BLE001 - it is shown as Python shows it
        trace = _its_own(error.__traceback__)
        telling.failed(error.with_traceback(trace))
        sys.excepthook(type(error), error, trace)
        sys.exit(1)


def _run(application: str) -> None:
    with open(application, "rb") as file:
        code = compile(file.read(), application, "exec", dont_inherit=True)
    # The very module: what an application defines there is sent to workers by its value, and found by its name.
    namespace = sys.modules["__main__"].__dict__
    namespace.clear()
    namespace |= dict.fromkeys(("__doc__", "__package__", "__loader__", "__spec__", "__cached__"))
    namespace |= {"__name__": "__main__", "__file__": application, "__builtins__": builtins, "__annotations__": {}}
    exec(code, namespace)  # noqa: S102 - that is what it is for


def _its_own(trace: TracebackType | None) -> TracebackType | None:
    """Without what stands here before the application's first line."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
