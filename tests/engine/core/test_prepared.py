from __future__ import annotations

import subprocess
import sys
import threading

import msgspec
import pytest

from engine.core.prepared import prepared
from hbus_console.state import ROOT

#: Types of their own in each round, first used by four threads at the same moment. Without the preparing, msgspec 0.22
#: ends the process within the first hundreds of rounds.
RACE = """
import sys, threading
from typing import Annotated, Any, TypedDict
import msgspec
from engine.core.prepared import prepared

sys.setswitchinterval(1e-6)
Count = Annotated[int, msgspec.Meta(ge=0)]

def declared():
    class Inner(TypedDict, total=False):
        one: Count
        two: str
        three: list[Count]
    class Outer(msgspec.Struct):
        role: str
        pid: Count
        detail: dict[str, Any] = {}
        inner: Inner | None = None
        beat: Count = 0
    return Outer

def use(kind, start):
    start.wait()
    msgspec.convert({"role": "a", "pid": 1, "inner": {"one": 1, "three": [2]}}, prepared(kind))

for _ in range(1500):
    kind, start = declared(), threading.Barrier(4)
    threads = [threading.Thread(target=use, args=(kind, start)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_threads_that_use_a_type_first_at_the_same_moment_live_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RACE], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_a_type_is_itself_and_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    decoder = msgspec.json.Decoder
    monkeypatch.setattr(msgspec.json, "Decoder", lambda kind: made.append(kind) or decoder(kind))

    class Once(msgspec.Struct):
        a: int

    assert [prepared(Once), prepared(Once)] == [Once, Once]
    assert made == [Once]


def test_a_type_that_cannot_be_read_is_refused_each_time_and_holds_nobody_up() -> None:
    class Mixed(msgspec.Struct):
        a: str | bytes

    for _ in range(2):
        with pytest.raises(TypeError):
            prepared(Mixed)
    other = threading.Thread(target=prepared, args=(list[int],))
    other.start()
    other.join(30)
    assert not other.is_alive()
