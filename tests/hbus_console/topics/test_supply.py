"""The table of promises says who keeps each, for every transport."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.errors import BadInput
from hbus_console.access.permissions import SYSTEM
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft, create_topic
from hbus_console.topics.supply import promises
from hbus_console.wiring import store

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def nsq(settings: Settings, tmp_path: Path) -> None:
    """An nsqd is named, and not asked."""
    settings.NSQD_URL = ("http://127.0.0.1:9",)
    store.close()


def keepers(transport: str) -> dict[str, str]:
    return {promise.name: promise.keeper for promise in promises(Topic(name="t", transport=transport))}


def test_redis_streams_keep_all_of_their_own_promises() -> None:
    found = keepers("redis_stream")
    assert {found[name] for name in ("Order by key", "Priorities", "Retries", "Reading back")} == {"transport"}
    assert (found["Headers"], found["Due times"], found["Effects once"]) == ("envelope", "delay path", "inbox")
    assert "refused" not in found.values()


def test_the_table_tells_of_the_topic_and_not_of_what_its_transport_could_do() -> None:
    def told(**rules: object) -> dict[str, str]:
        topic = Topic(name="t", transport="redis_stream", **rules)
        return {promise.name: promise.how for promise in promises(topic)}

    plain = told(priorities=False, max_bytes=1024 * 1024)
    assert plain["Largest message"] == "1 MB"
    assert plain["Priorities"] == "not asked for: none goes before another"
    assert plain["Order by key"] == "not asked for: as they come"
    assert told(priorities=True)["Priorities"] == "high before normal before low"
    assert told(ordering="key", priorities=False)["Order by key"] == "one owner a partition"
    assert told(max_bytes=10**12)["Largest message"] != told(max_bytes=10**6)["Largest message"]


@pytest.mark.usefixtures("nsq")
def test_what_nsq_lacks_is_kept_beside_it_above_it_or_refused() -> None:
    found = keepers("nsq")
    assert {found[name] for name in ("Order by key", "Priorities", "Replay and late subscribers")} == {"refused"}
    beside = ("Leases", "Retries", "Dead letters", "Repeats recognised", "Pause")
    assert {found[name] for name in beside} == {"store beside"}
    assert (found["Reading back"], found["Survives a restart"]) == ("ledger", "transport")
    assert keepers("nsq").keys() == keepers("redis_stream").keys()


@pytest.mark.usefixtures("nsq")
def test_the_topics_page_shows_the_table(signed_in: Callable[..., Client], topic: Topic) -> None:
    Topic.objects.filter(pk=topic.pk).update(transport="nsq")
    text = signed_in().get(f"/topics/{topic.name}/").content.decode()
    assert "who keeps it" in text
    assert "store beside" in text


@pytest.mark.usefixtures("nsq")
@pytest.mark.parametrize(
    ("field", "wanted"),
    [("ordering", {"ordering": "key", "priorities": False}), ("priorities", {"priorities": True})],
)
def test_what_nobody_would_keep_is_refused_when_it_is_configured(
    own_keys: None, team: Team, field: str, wanted: dict[str, object]
) -> None:
    with pytest.raises(BadInput) as refused:
        create_topic(SYSTEM, TopicDraft("orders.late", team.name, transport="nsq", **wanted))  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.remedy
    assert not Topic.objects.filter(name="orders.late").exists()


@pytest.mark.usefixtures("nsq")
def test_a_name_that_nsqd_would_not_take_is_refused(own_keys: None, team: Team) -> None:
    with pytest.raises(BadInput, match="takes 50") as refused:
        create_topic(SYSTEM, TopicDraft("a" * 60, team.name, transport="nsq"))
    assert refused.value.field == "name"


def test_a_transport_that_is_not_set_up_is_refused_with_what_to_do(
    own_keys: None, team: Team, settings: Settings
) -> None:
    settings.NSQD_URL = settings.NSQLOOKUPD_URL = ()
    store.close()
    with pytest.raises(BadInput, match="NSQD_URL") as refused:
        create_topic(SYSTEM, TopicDraft("orders.late", team.name, transport="nsq"))
    assert refused.value.field == "transport"


def test_a_transport_without_settings_has_an_empty_table(settings: Settings) -> None:
    settings.NSQD_URL = settings.NSQLOOKUPD_URL = ()
    store.close()
    assert promises(Topic(name="t", transport="nsq")) == []
