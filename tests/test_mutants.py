"""The plan of planted faults fits the house, and a sample of them is caught; ``make mutants`` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.plan import PLAN
from tests.mutants.planting import ROOT, Nursery, mutated

#: Quick ones, of the engine and of the console.
SAMPLE = ("publish-drops-one-in-5000", "inbox-forgets-one-in-ten")


@pytest.mark.parametrize("mutant", PLAN, ids=lambda mutant: mutant.name)
def test_each_can_be_planted_and_there_is_somebody_to_notice_it(mutant: Mutant) -> None:
    text = mutated(mutant, (ROOT / mutant.file).read_text(encoding="utf-8"))
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")
    assert mutant.noticed_by
    assert [name for name in mutant.noticed_by if not (ROOT / name.partition("::")[0]).is_file()] == []


def test_their_names_differ() -> None:
    assert len({mutant.name for mutant in PLAN}) == len(PLAN)


def test_what_stands_in_two_places_is_not_planted() -> None:
    twice = Mutant("twice", "", "x", "a", "b", ())
    with pytest.raises(ValueError, match="2 times"):
        mutated(twice, "a a")


@pytest.mark.whole
def test_a_sample_is_caught_and_a_change_that_breaks_nothing_is_not(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path)
    for mutant in (each for each in PLAN if each.name in SAMPLE):
        verdict = nursery.try_out(mutant)
        assert verdict.caught_by, f"{mutant.name}: {verdict.trouble}"
    harmless = Mutant(
        "harmless", "", "hbus_console/outbox/inbox.py", "import threading\n", "import threading\n\n",
        ("tests/hbus_console/outbox/test_inbox.py",),
    )  # fmt: skip
    assert nursery.try_out(harmless).trouble == "survived"
