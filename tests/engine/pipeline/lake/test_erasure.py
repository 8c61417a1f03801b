"""What bears a key goes, all of it and nothing else, whatever happens beside it; a hold forbids it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.errors import BadInput, NotThere
from engine.pipeline.lake.compaction import FAN, compact
from engine.pipeline.lake.erasure import UnderHold, erase
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.lake.retention import set_rules
from engine.pipeline.lake.schema import key_hash
from engine.pipeline.lake.state import Act, Commit, Erased, Kind, LakeState, TopicRules
from tests.engine.pipeline.lake.filling import Filled


def erase_guest(filled: Filled, key: str = "guest-7", topic: str = "t") -> Erased:
    return erase(filled.lake, topic, key, by="ada", reason="asked for by the guest")


def test_all_of_a_key_goes_and_nothing_else(filled: Filled) -> None:
    filled.add(["guest-7", "guest-8", ""])
    filled.add(["guest-8"])
    filled.add(["guest-7"])
    filled.add(["guest-7"], "u")

    erased = erase_guest(filled)

    assert erased == Erased(key_hash("guest-7"), filled.clock.now_ms(), {Kind.MESSAGES: 2})
    assert sorted(filled.ids()) == ["m1", "m2", "m3"]
    assert filled.ids("u") == ["m5"]
    assert [(file.rows, file.first, file.last) for file in filled.lake.state().files_of("t")] == [
        (2, "0-0", "2-0"),
        (1, "3-0", "3-0"),
    ]
    assert filled.lake.state().topics["t"].erased == [erased]
    assert list(filled.lake.verify()) == []


def test_of_whom_is_nowhere_to_be_read(filled: Filled) -> None:
    filled.add(["guest-7", "guest-8"])
    erase_guest(filled)
    filled.clock.advance(GRACE_S + 1)
    filled.lake.sweep()
    held = [path for path in filled.root.rglob("*") if path.is_file() and b"guest-7" in path.read_bytes()]
    assert held == []
    commit = list(filled.lake.commits())[-1]
    assert (commit.act, commit.by, commit.reason) == (Act.ERASURE, "ada", "asked for by the guest")


def test_a_key_that_nothing_bears_is_refused_and_nothing_changes(filled: Filled) -> None:
    filled.add(["guest-8"])
    before = filled.lake.state()
    with pytest.raises(NotThere):
        erase_guest(filled)
    with pytest.raises(NotThere):
        erase_guest(filled, topic="unknown")
    with pytest.raises(BadInput):
        erase_guest(filled, key="")
    assert filled.lake.state() == before


def test_under_a_hold_nothing_is_erased(filled: Filled) -> None:
    filled.add(["guest-7"])
    set_rules(filled.lake, "t", lambda _: TopicRules(hold="case 12-4711"), by="ada", reason="the court")
    with pytest.raises(UnderHold, match="case 12-4711"):
        erase_guest(filled)
    assert filled.ids() == ["m0"]


@pytest.mark.parametrize("beside", ["archive", "compaction", "hold"])
def test_what_happens_meanwhile_is_seen(filled: Filled, beside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(FAN):
        filled.add(["guest-7", "guest-8"])
    publish = filled.lake.publish

    def after_others(make: Callable[[LakeState], Commit]) -> LakeState:
        monkeypatch.undo()
        if beside == "archive":
            filled.add(["guest-7", "guest-9"])
        elif beside == "compaction":
            assert compact(filled.lake).made == 1
        else:
            set_rules(filled.lake, "t", lambda _: TopicRules(hold="case 12-4711"), by="ada", reason="the court")
        return publish(make)

    monkeypatch.setattr(filled.lake, "publish", after_others)
    if beside == "hold":
        with pytest.raises(UnderHold):
            erase_guest(filled)
        assert len(filled.of_key("guest-7")) == FAN
        return
    erased = erase_guest(filled)
    assert erased.rows == {Kind.MESSAGES: FAN + (beside == "archive")}
    assert filled.of_key("guest-7") == []
    assert len(filled.of_key("guest-8")) == FAN
    assert list(filled.lake.verify()) == []


def test_a_file_that_is_not_as_it_was_committed_stops_it(filled: Filled) -> None:
    (file,) = filled.add(["guest-7"])
    (filled.root / file.path).write_bytes(b"PAR1")
    with pytest.raises(LakeDamaged):
        erase_guest(filled)
