"""An application is shown what Python shows a program, whatever tells of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cron.work.spark import as_main
from hbus_console.state import ROOT

DRIVER = Path(as_main.__file__).with_name("driver.py")
_SEES = """
from __future__ import annotations
import json, pickle, sys, __main__
import beside

class Thing:
    pass

assert pickle.loads(pickle.dumps(Thing())).__class__ is __main__.Thing
print(json.dumps([sys.argv, __name__, __file__, sys.path[0], sorted(vars(__main__)), __doc__, __spec__]))
"""


def driven(application: Path, *args: str, pipe: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(DRIVER), str(pipe or application.parent / "no-pipe"), str(application), *args]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=around, check=False)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").touch()
    return tmp_path / "app.py"


def test_it_sees_what_it_would_see_by_itself_and_a_pipe_that_is_not_there_is_said(application: Path) -> None:
    application.write_text(_SEES)
    by_itself = subprocess.run(
        [sys.executable, str(application), "a", "--b"], capture_output=True, text=True, check=True
    )
    ended = driven(application, "a", "--b")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == json.loads(by_itself.stdout)
    assert ended.stderr.startswith("hbus: how far this application is cannot be told: FileNotFoundError: ")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    raise ValueError('no rate')\nf()\n",
        "1 +\n",
        "import sys\nsys.exit(3)\n",
        "raise SystemExit('no')\n",
    ],
)
def test_it_ends_as_it_would_by_itself_with_its_own_traceback(application: Path, text: str) -> None:
    application.write_text(text)
    by_itself = subprocess.run([sys.executable, str(application)], capture_output=True, text=True, check=False)
    ended = driven(application)
    assert ended.returncode == by_itself.returncode != 0
    assert ended.stderr.partition("\n")[2] == by_itself.stderr


def test_its_python_error_is_told(application: Path) -> None:
    application.write_text("def f():\n    raise ValueError('no rate')\nf()\n")
    pipe = application.parent / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert driven(application, pipe=pipe).returncode == 1
    *_, last = os.read(reader, 100_000).splitlines()
    os.close(reader)
    assert json.loads(last)["failure"].splitlines() == [
        "ValueError: no rate",
        "in the driver:",
        f'  File "{application}", line 3, in <module>',
        "    f()",
        f'  File "{application}", line 2, in f',
        "    raise ValueError('no rate')",
    ]
