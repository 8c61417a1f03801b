from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole, covers
from hbus_console.access.scopes import namespace_q, scopes_q, valid_role, valid_scope
from hbus_console.messages.models import FlowSample
from hbus_console.publishing.feature import PUBLISH
from hbus_console.topics.models import Topic

NAMES = ["booking", "booking.created", "booking.created.eu", "bookings", "booking-x", "Booking.created", "b_oking.x",
         "baoking.x", "booking.%", "stay", "stay.completed", "booking/x", "bookin"]  # fmt: skip
SCOPES = ["*", "booking.*", "booking", "booking.created.*", "b_oking.*", "stay.*", "STAY.*", "nothing.*"]


@pytest.mark.django_db
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scopes=st.lists(st.sampled_from(SCOPES), max_size=3))
def test_a_list_shows_exactly_the_topics_that_the_scopes_cover(scopes: list[str]) -> None:
    if not Topic.objects.exists():
        Topic.objects.bulk_create(Topic(name=name) for name in NAMES)
    shown = set(Topic.objects.filter(scopes_q(tuple(scopes), "name")).values_list("name", flat=True))
    assert shown == {name for name in NAMES if any(covers(scope, name) for scope in scopes)}


@pytest.mark.django_db(databases=["default", "ledger"])
def test_the_filter_works_across_relations_and_databases() -> None:
    FlowSample.objects.create(bucket_ms=0, topic="booking.created")
    FlowSample.objects.create(bucket_ms=0, topic="stay.completed")
    anna = Actor("anna", grants=(ScopedRole(Role.VIEWER, "booking.*"),))
    assert FlowSample.objects.filter(namespace_q(anna, "topic")).get().topic == "booking.created"
    assert not FlowSample.objects.filter(namespace_q(anna, "topic", PUBLISH)).exists()


@pytest.mark.parametrize("scope", ["*", "booking", "booking.*", "booking.created", "a-b_c.D9.*", " booking.* "])
def test_scopes_people_may_type(scope: str) -> None:
    assert valid_scope(scope) == scope.strip()


@pytest.mark.parametrize("scope", ["", "**", "*.x", "book*", "a.*.*", ".", "a..b", "a b", "a/b", "ä", "x" * 201])
def test_scopes_that_mean_nothing(scope: str) -> None:
    with pytest.raises(BadInput) as caught:
        valid_scope(scope, field="there")
    assert caught.value.field == "there"


def test_roles_by_name() -> None:
    assert valid_role(" editor ") is Role.EDITOR
    with pytest.raises(BadInput, match="viewer, operator, editor, governor, admin"):
        valid_role("king")
