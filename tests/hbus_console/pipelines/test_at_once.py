"""The archive's own job and a person archive the same topics at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.pipeline.archive.tasks import ArchiveTask, in_this_process
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.state import LakeFile
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.archiving import TRIES, run_archive, wanted_topics
from hbus_console.pipelines.services import archive_topic
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY, kept, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
Tasks = Sequence[ArchiveTask]


def overtaken(times: int, before: Callable[[], object] = lambda: None) -> Callable[[Tasks], list[list[LakeFile]]]:
    """Reads, and another run archives the first topic before what was read is committed: that often."""
    left = [times]

    def execute(tasks: Tasks) -> list[list[LakeFile]]:
        made = list(in_this_process(tasks))
        if left[0] > 0:
            left[0] -= 1
            run_archive(wanted_topics([TOPIC]), in_this_process)
            before()
        return made

    return execute


@pytest.fixture(autouse=True)
def wanted(governor: Actor) -> None:
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)


def test_who_comes_second_goes_on_with_what_the_first_left() -> None:
    publish(20, OTHER)
    done = run_archive(wanted_topics([]), overtaken(1))
    assert [each.messages for each in done.stores] == [{OTHER: 20}]
    for name, number in ((TOPIC, 40), (OTHER, 20)):
        assert (len(kept(name)), len(set(kept(name)))) == (number, number)


def test_who_comes_second_every_time_gives_up_and_nothing_is_doubled() -> None:
    with pytest.raises(Superseded, match=TOPIC):
        run_archive(wanted_topics([TOPIC]), overtaken(TRIES, lambda: publish(1)))
    run_archive(wanted_topics([TOPIC]), in_this_process)
    assert (len(kept()), len(set(kept()))) == (40 + TRIES, 40 + TRIES)
