"""Where a replay ends."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from engine.bus.producer import Receipt
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.operations import services
from hbus_console.replays import walking
from hbus_console.wiring import bus, store
from tests.hbus_console.replays.conftest import TOPIC, run

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def test_it_ends_where_it_was_to_end_also_when_retention_takes_that_on_the_way(
    editor: Actor, published: list[Receipt]
) -> None:
    """It went on to the end of the log then: the position was never met."""
    spec = {"topic": TOPIC, "until": published[9].position, "into_group": "billing"}
    operation = services.start(editor, "replay", spec, reason="why", rate_per_s=0).operation
    last = bus.admin().read(TOPIC, published[9].position)
    assert last is not None
    assert operation.spec["to_ms"] == last.at_ms


@pytest.mark.parametrize("when", ["before a step", "between two pages"])
def test_one_that_was_begun_before_an_upgrade_ends_there_as_well(
    editor: Actor, published: list[Receipt], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows its end by its position alone, which retention takes."""
    monkeypatch.setattr(walking, "PAGE", 4)
    spec = {"topic": TOPIC, "until": published[9].position, "into_group": "billing"}
    operation = services.start(editor, "replay", spec, reason="why", rate_per_s=0).operation
    operation.spec["to_ms"] = SystemClock().now_ms()
    operation.save()
    admin = bus.admin()
    browse, pages = admin.browse, []
    # Its end, and two beyond.
    taken = [each.position for each in published[:12]]
    stream = f"{settings.HBUS_PREFIX}:{{{TOPIC}}}:normal"

    def trimming(*args: Any, **kwargs: Any) -> Any:
        page = browse(*args, **kwargs)
        if kwargs["limit"] == 4:
            pages.append(page)
            if len(pages) == 2:
                store.client().xdel(stream, *taken)
        return page

    if when == "before a step":
        store.client().xdel(stream, *taken)
    else:
        monkeypatch.setattr(type(admin), "browse", lambda _, *args, **kwargs: trimming(*args, **kwargs))
    run(operation)
    assert operation.note.endswith("reached the end of the range")
    assert operation.done == (0 if when == "before a step" else 8)


def test_an_end_that_is_not_held_is_refused(editor: Actor, published: list[Receipt]) -> None:
    spec = {"topic": TOPIC, "until": "1-1", "into_group": "billing"}
    with pytest.raises(BadInput, match="does not hold '1-1'"):
        services.start(editor, "replay", spec, reason="why")


def test_an_end_before_the_beginning_is_refused(editor: Actor, published: list[Receipt]) -> None:
    after = published[3].position
    spec = {"topic": TOPIC, "after": after, "until": after, "into_group": "billing"}
    with pytest.raises(BadInput, match="empty"):
        services.start(editor, "replay", spec, reason="why")
