from __future__ import annotations

import pytest
from pytest_django import Settings

from hbus_console.topics.carriers import needs_nsqd
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _none_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NSQD_URL", "NSQLOOKUPD_URL"):
        monkeypatch.delenv(name, raising=False)


def test_topics_on_the_store_need_no_nsqd(topic: Topic) -> None:
    assert not needs_nsqd()


@pytest.mark.parametrize("field", ["transport", "leaving"])
def test_a_topic_that_goes_by_nsq_or_leaves_it_needs_one(topic: Topic, field: str) -> None:
    Topic.objects.filter(pk=topic.pk).update(**{field: "nsq"})
    assert needs_nsqd()


def test_so_does_the_default_until_somebody_names_their_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HBUS_TRANSPORT = "nsq"
    assert needs_nsqd()
    monkeypatch.setenv("NSQD_URL", "http://10.0.0.1:4151")
    assert not needs_nsqd()
