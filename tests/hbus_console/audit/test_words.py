from __future__ import annotations

import pytest

from engine.core.redaction import REDACTED
from hbus_console.audit import words
from hbus_console.audit.diff import Change, diff, told
from hbus_console.audit.models import AuditEntry


def sentence(action: str, target_type: str = "topic", target: str = "a.b", **more: str) -> str:
    entry = AuditEntry(action=action, target_type=target_type, target=target, actor="anna", actor_kind="user", **more)
    named = f" {target}" if words.names_target(entry) else ""
    where = f" on {words.where(entry)}" if words.where(entry) else ""
    return f"anna {words.did(entry)}{named}{where}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "topic.pause"}, "anna paused a.b"),
        ({"action": "schema.add"}, "anna added a schema to a.b"),
        (
            {"action": "subscription.pause", "target_type": "subscription", "target": "a.b/g", "namespace": "a.b"},
            "anna paused the subscription a.b/g",
        ),
        ({"action": "team.create", "target_type": "team", "target": "Billing"}, "anna created the team Billing"),
        (
            {"action": "dead_letter.redrive", "target_type": "message", "target": "01M7", "namespace": "a.b"},
            "anna redrove the dead letter 01M7 on a.b",
        ),
        ({"action": "message.publish", "target_type": "message", "target": "01M7", "namespace": "a.b"},
         "anna published 01M7 on a.b"),
        ({"action": "session.login", "target_type": "user", "target": "anna"}, "anna signed in"),
        ({"action": "session.login.refused", "target_type": "user", "target": "bob"}, "anna failed to sign in as bob"),
        ({"action": "topic.delete.refused"}, "anna was not allowed to delete topics on a.b"),
        (
            {"action": "cluster.operate.refused", "target_type": "installation", "target": "hbus"},
            "anna was not allowed to operate the cluster",
        ),
        ({"action": "retention.change"}, "anna changed the retention of a.b"),
        ({"action": "something.unheard_of"}, "anna something unheard of a.b"),
    ],
)  # fmt: skip
def test_an_entry_reads_as_a_sentence(given: dict[str, str], said: str) -> None:
    assert sentence(**given) == said


@pytest.mark.parametrize(
    ("kind", "action", "tone"),
    [
        ("user", "topic.pause", "act"),
        ("shell", "topic.pause", "act"),
        ("token", "topic.pause", "neutral"),
        ("system", "topic.pause", "neutral"),
        ("user", "topic.pause.refused", "warn"),
        ("user", "message.publish.failed", "warn"),
        ("user", "message.publish.unknown", "warn"),
    ],
)
def test_violet_is_what_a_person_did(kind: str, action: str, tone: str) -> None:
    assert words.tone(AuditEntry(action=action, actor_kind=kind)) == tone


def test_a_diff_names_what_came_went_changed_and_stayed() -> None:
    before = {"a": 1, "gone": "x", "deep": {"kept": True, "moved": [1, 2]}, "flag": True}
    after = {"a": 2, "new": None, "deep": {"kept": True, "moved": [2, 1]}, "flag": 1}
    assert diff(before, after) == [
        Change("a", "changed", 1, 2),
        Change("deep.kept", "same", True, True),
        Change("deep.moved", "changed", [1, 2], [2, 1]),
        Change("flag", "changed", True, 1),
        Change("gone", "noted before", "x", None),
        Change("new", "noted after", None, None),
    ]


def test_what_one_side_alone_tells_is_no_change_and_within_what_both_tell_it_is() -> None:
    # As discarding a dead letter notes it: nothing took the cause away.
    found = diff({"state": "dead", "cause": "x", "p": {"a": 1, "b": {"c": 1}}}, {"state": "gone", "p": {"d": 2}})
    assert [(change.field, change.kind) for change in found] == [
        ("cause", "noted before"),
        ("p.a", "removed"),
        ("p.b.c", "removed"),
        ("p.d", "added"),
        ("state", "changed"),
    ]


def test_what_is_redacted_on_both_sides_is_not_said_to_have_stayed() -> None:
    sides = {"secret": REDACTED, "hooks": [{"token": REDACTED}], "plain": "a"}
    assert [change.kind for change in diff(sides, sides)] == ["untold", "same", "untold"]


def test_of_a_list_it_is_told_what_came_and_what_went() -> None:
    (change,) = diff({"fields": ["guest.name", "card", 1]}, {"fields": ["card", "guest.name", "iban", True]})
    assert (change.kind, change.came, change.went) == ("changed", "iban, yes", "1")
    (change,) = diff({"fields": ["a"]}, {"fields": "a"})
    assert (change.came, change.went) == ("", "")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("retention_hours", 168, "168 (7 days)"),
        ("policy.lease_s", 90, "90"),
        ("policy.lease_s", 120, "120 (2 minutes)"),
        ("max_bytes", 2**20, "1048576 (1 MiB)"),
        ("attempts", 86_400, "86400"),
    ],
)
def test_a_number_is_told_in_a_larger_unit_too(field: str, value: int, text: str) -> None:
    assert told(value, field) == text


def test_a_side_that_is_missing_is_all_added_or_all_removed() -> None:
    assert [change.kind for change in diff(None, {"a": 1})] == ["added"]
    assert [change.kind for change in diff({"a": 1}, None)] == ["removed"]
    assert diff(None, None) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), (True, "yes"), (False, "no"), ("", "empty"), ("é", "é"), (["é"], '["é"]'), (3, "3")],
)
def test_values_are_told_in_words(value: object, text: str) -> None:
    assert told(value) == text


def test_an_instant_in_milliseconds_is_told_as_one_and_a_duration_is_not() -> None:
    changes = diff(
        None,
        {"spec": {"to_ms": 1_790_000_000_000, "window_ms": 86_400_000}, "size": 1_790_000_000_000, "at_ms": 10**20},
    )
    assert {change.field: change.now for change in changes} == {
        "spec.to_ms": "2026-09-21T14:13:20.000Z",
        "spec.window_ms": "86400000",
        "size": "1790000000000",
        "at_ms": "100000000000000000000",
    }


@pytest.mark.parametrize("action", ["message.publish", "subscription.unpark_skip", "worker.hold"])
@pytest.mark.parametrize("ending", [".unknown", ".failed"])
def test_an_attempt_and_its_outcome_read_differently(action: str, ending: str) -> None:
    attempt, outcome = (
        AuditEntry(action=each, target_type="message", target="x") for each in (action, action + ending)
    )
    assert words.did(attempt, action + ending).startswith("tried, and ")
    assert words.did(attempt, action + ending) != words.did(outcome)
    assert words.did(attempt) in words.did(attempt, action + ending)
