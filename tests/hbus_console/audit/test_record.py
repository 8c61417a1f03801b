from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from engine.core.redaction import REDACTED, redact_text
from engine.core.subject import Subject
from hbus_console.access.acts import Act, Role
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import Actor, Forbidden, ScopedRole, require
from hbus_console.accounts.feature import ACCESS_MANAGE
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry, RefusalCount
from hbus_console.audit.plain import as_stored, plain
from hbus_console.audit.redact import redact
from hbus_console.audit.refusal_counts import MOST_A_DAY
from hbus_console.audit.refusals import record_refusal
from hbus_console.audit.services import content, record
from hbus_console.audit.verify import verify
from hbus_console.subjects import readable
from hbus_console.topics.feature import TOPIC_DELETE

ANNA = Actor(name="anna", grants=(ScopedRole(Role.VIEWER, "*"),))
pytestmark = pytest.mark.django_db

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _state(audit_state: object) -> None:
    return None


def test_an_entry_belongs_to_the_transaction_of_its_change() -> None:
    @transaction.atomic
    def change() -> None:
        record(ANNA, "topic.pause", Subject("topic", "a.b"))
        raise DatabaseError("the change failed")

    with pytest.raises(DatabaseError):
        change()
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_a_transaction_is_refused() -> None:
    with pytest.raises(RuntimeError, match="in the transaction of its change"):
        record(ANNA, "topic.pause", Subject("topic", "a.b"))


def test_an_entry_holds_who_what_why_and_the_requests_ids() -> None:
    with bound(RequestContext("req-1", "corr-1", "10.0.0.1")), transaction.atomic():
        entry = record(ANNA, "topic.pause", Subject("topic", "a.b"), reason="why", before={"paused": False})
    found = AuditEntry.objects.get()
    assert content(found) == content(entry) | {"at": found.at.astimezone(UTC).isoformat(timespec="microseconds")}
    assert (found.request_id, found.correlation_id, found.address) == ("req-1", "corr-1", "10.0.0.1")
    assert (found.namespace, found.before, found.after) == ("a.b", {"paused": False}, None)


def test_a_target_that_is_no_topic_says_its_topic() -> None:
    with transaction.atomic():
        record(ANNA, "x", Subject("subscription", "a.b", "g"))
        record(ANNA, "x", Subject("user", "", "bob"))
    assert list(AuditEntry.objects.order_by("seq").values_list("namespace", flat=True)) == ["a.b", ""]


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.text(max_size=6), JSON, max_size=4), reason=st.text(), target=st.text(max_size=20))
def test_whatever_is_written_is_read_back_with_the_same_hash(values: dict[str, Any], reason: str, target: str) -> None:
    with transaction.atomic():
        record(ANNA, "x", readable("thing", "", target), reason=reason, before=values, after={"a": [values]})
        assert verify().holds
        transaction.set_rollback(True)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (1e20, 10**20),
        (1.5e300, 15 * 10**299),
        (2.0, 2),
        (-0.0, 0),
        (0.1, 0.1),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("a\x00b", "a␀b"),
        ("a\udc80", "a?"),
    ],
)
def test_values_take_the_form_in_which_every_database_returns_them(given: Any, stored: Any) -> None:
    assert plain({"v": [given]}) == {"v": [stored]}


def test_a_text_no_database_holds_is_written_readably() -> None:
    assert as_stored("x\x00\udcffy") == "x␀?y"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("hbus_0123456789_" + "s3cretpart" * 4, "s3cretpart"),
        ("Authorization: Bearer eyJhbGciOi.payload.sig", "eyJhbGciOi"),
        ("Basic cm9vdDpzZWNyZXQ=", "cm9vdDpzZWNyZXQ="),
        ("redis://default:hunter2@store:6379/0", "hunter2"),
        ("https://partner.example/in?a=1&sig=abc123&b=2", "abc123"),
        ("https://partner.example/in?api_key=abc123", "abc123"),
        ("https://partner.example/in?key=abc123", "abc123"),
        ("https://f3a9c01b@partner.example/in", "f3a9c01b"),
        ("moved to https://hooks.example/services/T02AB/B07XY/q8ZkPw3LmNv5RtYsXcDe1FgH.", "q8ZkPw3LmNv5RtYsXcDe1FgH"),
    ],
)
def test_credentials_in_a_text_are_not_written_down(text: str, secret: str) -> None:
    assert secret not in redact_text(text)
    assert REDACTED in redact_text(text)


def test_what_is_no_secret_stays_readable() -> None:
    for text in (
        "https://partner.example:8443/in?booking=48213#top and 10:30@noon",
        "see https://hbus.example/messages/01M7QK9WZ3T5V8X2B4N6P0R1S7 and https://git.example/a/9f2b7c1e0d4a58b36f7e",
        "no such file: /srv/Releases/HotelBooking2026Spring/app.py",
    ):
        assert redact_text(text) == text


def test_secret_fields_are_redacted_wherever_they_lie() -> None:
    given = {
        "webhook_secret": "x", "a": [{"password": "y", "user": "z", "must_change_password": True, "token_pin": 7}],
        "token": "", "api_key": None,
    }  # fmt: skip
    assert redact(given) == {
        "webhook_secret": REDACTED,
        "a": [{"password": REDACTED, "user": "z", "must_change_password": True, "token_pin": REDACTED}],
        "token": "",
        "api_key": None,
    }


def test_a_reason_with_a_credential_is_redacted() -> None:
    with transaction.atomic():
        entry = record(ANNA, "x", Subject("y", "", "z"), reason="used Bearer abcdefghijkl")
    assert "abcdefghijkl" not in entry.reason


def refusal(action: Act, resource: str = "*") -> Forbidden:
    with pytest.raises(Forbidden) as caught:
        require(ANNA, action, resource)
    return caught.value


def test_a_refused_act_is_an_entry_of_its_own() -> None:
    entry = record_refusal(ANNA, refusal(TOPIC_DELETE, "a.b"))
    assert entry is not None
    assert (entry.action, entry.target_type, entry.target, entry.namespace) == (
        "topic.delete.refused",
        "topic",
        "a.b",
        "a.b",
    )
    assert "anna may not delete topics on a.b." in entry.after["why"]


def test_a_refused_act_on_the_installation_names_it() -> None:
    entry = record_refusal(ANNA, refusal(ACCESS_MANAGE))
    assert entry is not None
    assert (entry.target_type, entry.target, entry.namespace) == ("installation", "hbus", "")


@pytest.mark.parametrize(
    ("act", "resource", "text"),
    [
        (TOPIC_DELETE, "a.b", "topic:a.b"),
        (TOPIC_DELETE, "a.*", "namespace:a"),
        (ALERT_EDIT, "a.b", "namespace:a.b"),
        (ALERT_EDIT, "?", "installation:/hbus"),
    ],
)
def test_a_refused_act_says_what_it_was_to_be_done_to(act: Act, resource: str, text: str) -> None:
    entry = record_refusal(ANNA, refusal(act, resource))
    assert entry is not None
    assert str(entry.subject) == text


def test_a_person_who_asks_all_day_for_what_they_may_not_do_has_so_many_entries() -> None:
    error = refusal(TOPIC_DELETE, "a.b")
    made = [record_refusal(ANNA, error) for _ in range(MOST_A_DAY + 2)]
    assert (made[-3] is None, made[-2:]) == (False, [None, None])
    assert AuditEntry.objects.count() == MOST_A_DAY
    assert RefusalCount.objects.get().more == {"topic.delete.refused": {"times": 2, "last": "topic:a.b"}}


def test_nothing_is_booked_for_a_refused_look_or_for_nobody() -> None:
    assert record_refusal(ANNA, refusal(AUDIT_READ)) is None
    assert record_refusal(Actor(name="anonymous", kind="anonymous"), refusal(TOPIC_DELETE)) is None
    assert record_refusal(ANNA, Forbidden("no")) is None
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("field", ["url", "webhook_url"])
def test_of_an_address_that_is_called_the_host_is_kept_and_that_it_changed(field: str) -> None:
    one, same, other = (
        redact({field: f"https://hooks.example/services/{key}?a={key}"})[field]
        for key in ("x7Qk9w", "x7Qk9w", "x7Qk9v")
    )
    assert one.startswith("https://hooks.example/services/… (address ")
    assert "x7Qk9w" not in one
    assert (one == same, one == other) == (True, False), "an entry shows that it changed, not to what"
    assert redact({field: "https://partner.example/in"}) == {field: "https://partner.example/in"}
    assert redact({field: None}) == {field: None}
