from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbus_console.access.acts import VIEW, Act, Role
from hbus_console.access.permissions import (
    ANONYMOUS,
    GLOBAL,
    SOMEWHERE,
    SYSTEM,
    Actor,
    Forbidden,
    ScopedRole,
    allows,
    contains,
    covers,
    effective,
    narrower,
    require,
    visible_scopes,
)
from hbus_console.accounts.feature import ACCESS_MANAGE
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.deadletters.feature import DEAD_LETTER_REDRIVE
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.publishing.feature import PUBLISH
from hbus_console.registry.acts import acts
from hbus_console.registry.loading import features
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.topics.feature import TOPIC_EDIT, TOPIC_GOVERN, TOPIC_PAUSE

ACTS = sorted(acts().values(), key=lambda act: act.name)
GOVERNED = [act for act in ACTS if act.governed]
READING = [act for act in ACTS if act.reading]
SCOPES = ["*", "booking", "booking.*", "booking.created", "booking.created.*", "bookings", "stay.*", "stay"]
TOPICS = ["booking", "booking.created", "booking.created.eu", "bookings", "bookings.x", "stay", "stay.completed", "x"]


def person(*grants: tuple[str, str], limit: tuple[str, str] | None = None) -> Actor:
    return Actor(
        "anna",
        grants=tuple(ScopedRole(Role(role), scope) for role, scope in grants),
        limit=ScopedRole(Role(limit[0]), limit[1]) if limit else None,
    )


@pytest.mark.parametrize("action", ACTS)
@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_needs_it_or_less(action: Act, role: Role) -> None:
    expected = role.rank >= action.needs.rank
    assert allows(person((role.value, "*")), action, "booking.created") is expected
    assert allows(person((role.value, "*")), action) is expected


def test_every_action_says_what_it_needs() -> None:
    declared = [act for feature in features() for act in feature.acts]
    assert len({act.name for act in declared}) == len(declared), "two features declare one act"
    assert all(act.words for act in ACTS)
    assert {act.name for act in READING} == {"view", "payload.read", "cluster.view", "audit.read", "token.own"}


@pytest.mark.parametrize("action", ACTS)
def test_nobody_signed_in_may_do_nothing(action: Act) -> None:
    assert not allows(ANONYMOUS, action)
    assert not allows(ANONYMOUS, action, "booking.created")
    assert not allows(ANONYMOUS, action, SOMEWHERE)
    assert visible_scopes(ANONYMOUS, action) == ()


def test_the_system_may_do_everything() -> None:
    assert all(allows(SYSTEM, action, "booking.created") and allows(SYSTEM, action) for action in ACTS)


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("*", ["booking", "a.b.c"], []),
        ("booking.*", ["booking", "booking.created", "booking.created.eu"], ["bookings", "bookings.x", "stay"]),
        ("booking.created", ["booking.created"], ["booking", "booking.created.eu", "booking.changed"]),
    ],
)
def test_scope_is_a_namespace_and_not_a_prefix(scope: str, inside: list[str], outside: list[str]) -> None:
    assert all(covers(scope, topic) for topic in inside)
    assert not any(covers(scope, topic) for topic in outside)


@pytest.mark.parametrize("resource", [GLOBAL, SOMEWHERE, ""])
def test_a_narrow_scope_never_covers_what_is_no_topic(resource: str) -> None:
    assert not covers("booking.*", resource)
    assert not covers("", resource)


@pytest.mark.parametrize("action", GOVERNED)
def test_a_forgotten_resource_refuses_whoever_has_a_narrow_scope(action: Act) -> None:
    assert not allows(person(("admin", "booking.*")), action)
    assert allows(person(("admin", "*")), action)


@pytest.mark.parametrize("action", READING)
def test_filtered_reading_is_open_to_any_scope(action: Act) -> None:
    assert allows(person(("admin", "booking.*")), action)


def test_somewhere_asks_for_at_least_one_topic() -> None:
    editor = person(("viewer", "*"), ("editor", "booking.*"))
    assert allows(editor, TOPIC_EDIT, SOMEWHERE)
    assert not allows(editor, TOPIC_GOVERN, SOMEWHERE)


def test_the_stronger_of_two_grants_counts_where_it_holds() -> None:
    actor = person(("viewer", "*"), ("operator", "booking.*"))
    assert allows(actor, TOPIC_PAUSE, "booking.created")
    assert not allows(actor, TOPIC_PAUSE, "stay.completed")
    assert allows(actor, VIEW, "stay.completed")


def test_a_token_is_never_stronger_than_its_maker_nor_than_its_ceiling() -> None:
    for maker, ceiling in itertools.product(Role, Role):
        token = person((maker.value, "*"), limit=(ceiling.value, "*"))
        for action in ACTS:
            assert allows(token, action, "a.b") is (min(maker.rank, ceiling.rank) >= action.needs.rank)


def test_a_token_ends_where_the_narrower_scope_ends() -> None:
    narrow_token = person(("admin", "*"), limit=("admin", "booking.*"))
    narrow_maker = person(("admin", "booking.*"), limit=("admin", "*"))
    for token in (narrow_token, narrow_maker):
        assert allows(token, TOPIC_EDIT, "booking.created")
        assert not allows(token, TOPIC_EDIT, "stay.completed")
        assert not allows(token, ACCESS_MANAGE)


@pytest.mark.parametrize(
    ("grants", "limit", "seen"),
    [
        ([("viewer", "*")], None, ("*",)),
        ([("viewer", "*")], ("viewer", "booking.*"), ("booking.*",)),
        ([("viewer", "booking.*")], ("viewer", "*"), ("booking.*",)),
        ([("viewer", "booking.*")], ("viewer", "booking"), ("booking",)),
        ([("viewer", "booking.*")], ("viewer", "booking.created"), ("booking.created",)),
        ([("viewer", "booking")], ("viewer", "booking.*"), ("booking",)),
        ([("viewer", "booking.created.*")], ("viewer", "booking.*"), ("booking.created.*",)),
        ([("viewer", "booking.*")], ("viewer", "stay.*"), ()),
        ([("viewer", "booking.*"), ("viewer", "stay.*")], ("viewer", "stay.*"), ("stay.*",)),
    ],
)
def test_visible_scopes_are_what_grant_and_ceiling_share(
    grants: list[tuple[str, str]], limit: tuple[str, str] | None, seen: tuple[str, ...]
) -> None:
    assert visible_scopes(person(*grants, limit=limit)) == seen


def test_visible_scopes_ask_for_the_role_of_the_action() -> None:
    actor = person(("viewer", "*"), ("governor", "booking.*"))
    assert visible_scopes(actor, PAYLOAD_REVEAL) == ("booking.*",)
    ceiling = person(("governor", "*"), limit=("viewer", "*"))
    assert visible_scopes(ceiling, PAYLOAD_REVEAL) == ()


@given(
    grants=st.lists(st.tuples(st.sampled_from(list(Role)), st.sampled_from(SCOPES)), max_size=3),
    limit=st.none() | st.tuples(st.sampled_from(list(Role)), st.sampled_from(SCOPES)),
    action=st.sampled_from(ACTS),
    topic=st.sampled_from(TOPICS),
)
def test_lists_show_exactly_what_may_be_opened(
    grants: list[tuple[Role, str]], limit: tuple[Role, str] | None, action: Act, topic: str
) -> None:
    actor = Actor(
        "a", grants=tuple(ScopedRole(*grant) for grant in grants), limit=ScopedRole(*limit) if limit else None
    )
    listed = any(covers(scope, topic) for scope in visible_scopes(actor, action))
    assert listed is allows(actor, action, topic)


@given(one=st.sampled_from(SCOPES), other=st.sampled_from(SCOPES), topic=st.sampled_from(TOPICS))
def test_containment_and_narrowing_agree_with_coverage(one: str, other: str, topic: str) -> None:
    if contains(one, other) and covers(other, topic):
        assert covers(one, topic)
    shared = narrower(one, other)
    assert (shared is not None and covers(shared, topic)) is (covers(one, topic) and covers(other, topic))


def test_a_refusal_says_who_what_where_and_what_it_takes() -> None:
    with pytest.raises(Forbidden) as caught:
        require(person(("viewer", "*")), DEAD_LETTER_REDRIVE, "booking.changed")
    assert caught.value.what == "anna may not redrive dead letters on booking.changed."
    assert "operator on booking.changed" in caught.value.remedy
    with pytest.raises(Forbidden, match=r"may not edit teams.*role governor on \*"):
        require(person(("governor", "booking.*")), TEAM_EDIT)
    with pytest.raises(Forbidden, match="may not publish messages on any topic"):
        require(person(("viewer", "booking.*")), PUBLISH, SOMEWHERE)
    with pytest.raises(Forbidden, match="may not edit alert rules anywhere"):
        require(person(("viewer", "booking.*")), ALERT_EDIT, SOMEWHERE)
    assert (caught.value.action, caught.value.resource) == (DEAD_LETTER_REDRIVE, "booking.changed")


def test_a_ceiling_lowers_every_grant_and_leaves_out_what_lies_beside_it() -> None:
    grants = (ScopedRole(Role.ADMIN, "*"), ScopedRole(Role.VIEWER, "booking.*"), ScopedRole(Role.ADMIN, "alien.*"))
    limit = ScopedRole(Role.EDITOR, "booking.created")
    assert effective(Actor("a", grants=grants)) == grants
    assert effective(Actor("a/t", "token", grants=grants, limit=limit)) == (
        ScopedRole(Role.EDITOR, "booking.created"),
        ScopedRole(Role.VIEWER, "booking.created"),
    )
