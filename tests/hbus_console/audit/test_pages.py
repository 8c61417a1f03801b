from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.core.ids import new_id
from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit import state, trail
from hbus_console.audit.anchor import anchor_head
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import last_verified, verify_now
from hbus_console.messages.models import LedgerMessage

Write = Callable[..., list[AuditEntry]]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def sign_in(client: Client, audit_state: object) -> Callable[..., Client]:
    def enter(role: str = "operator", scope: str = "*", name: str = "olga") -> Client:
        user = User.objects.create_user(name)
        services.change_grants(SYSTEM, user, [ScopedRole(Role(role), scope)])
        client.force_login(user)
        return client

    return enter


def text(answer: Any) -> str:
    plain = html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))
    return re.sub(r"\s+", " ", plain)


def test_the_answer_comes_first(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(1203)
    page = text(client.get("/audit/"))
    assert "1,204 entries, not verified yet" in page
    assert "no head anchored on this host yet" in page
    verify_now()
    anchor_head()
    write(2)
    page = text(client.get("/audit/"))
    assert "1,206 entries, unbroken" in page
    assert re.search(r"head anchored [\w ]+, 2 came since", page)
    assert re.search(r"verified [\w ]+, 2 came since", page)


def test_each_row_says_where_it_stands(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(3)
    page = client.get("/audit/").content.decode()
    assert re.findall(r'<tr data-place="(\d+)"', page) == ["4", "3", "2", "1"]


def test_numbers_of_what_may_not_be_read_stand_on_no_page(
    sign_in: Callable[..., Client], write: Write, tamper: Any
) -> None:
    write(1203, subject=Subject("topic", "stay.completed"))
    client = sign_in("governor", "booking.*")
    page = text(client.get("/audit/"))
    assert "1,204" not in page
    said = text(client.post("/audit/verify/", follow=True))
    assert "The audit log is verified: unbroken." in said
    assert "1,20" not in said
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 777")
    said = text(client.post("/audit/verify/", {"full": "1"}, follow=True))
    assert "The log is not what was written" in said
    assert "777" not in said + text(client.get("/"))


def test_nobody_has_the_web_role_walk_a_long_log_whole(
    sign_in: Callable[..., Client], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(5)
    client = sign_in()
    client.post("/audit/verify/")
    before = last_verified()
    monkeypatch.setattr(state, "FULL_UP_TO", 3)
    client.post("/audit/verify/", {"full": "1"})
    after = last_verified()
    assert before is not None
    assert after is not None
    assert after.at_ms > before.at_ms
    assert after.full_at_ms == before.full_at_ms
    # Nor several people at once, which they could while it does not hold.
    with state._walk:
        assert client.post("/audit/verify/").status_code == 409
        assert client.post("/api/v1/audit/verify").status_code == 409
    assert client.post("/api/v1/audit/verify").status_code == 200


def test_a_long_search_says_how_far_it_looked(
    sign_in: Callable[..., Client], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in()
    write(30)
    monkeypatch.setattr(trail, "SCAN", 20)
    page = client.get("/audit/?q=never-written")
    assert "No entry matches so far" in text(page)
    assert "Looked through 20 entries, as far as entry" in text(page)
    long_ago = client.get("/audit/?q=never-written&range=24h")
    assert "Looked through 20 entries" in text(long_ago)
    further = client.get(f"/audit/?q=never-written&cursor={page.context['older']}")
    assert "Nothing you may see was done under these conditions." in text(further)


def test_a_broken_chain_says_what_is_wrong(sign_in: Callable[..., Client], write: Write, tamper: Any) -> None:
    client = sign_in()
    write(3)
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    answer = client.post("/audit/verify/", follow=True)
    page = text(answer)
    assert "The audit log does not hold: 1 finding in 4 entries." in page
    assert "Entry 2 (topic.pause) does not match its hash." in page
    assert '<span class="badge bad">broken</span>' in answer.content.decode()


def test_verifying_from_the_page_says_how_it_went(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(3)
    assert client.get("/audit/verify/").status_code == 405
    page = text(client.post("/audit/verify/", follow=True))
    assert "4 entries verified: unbroken; there are no anchors to tell whether its end was cut off." in page
    known = last_verified()
    assert known is not None
    assert known.seq == 4


def test_entries_are_sentences_newest_first(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(1, reason="maintenance window")
    page = client.get("/audit/").content.decode()
    assert '<span class="dot act"' in page
    assert "maintenance window" in page
    plain = text(client.get("/audit/"))
    assert plain.index("anna paused booking.created") < plain.index("system changed the roles of olga")


def test_filters_live_in_the_address(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(1, subject=Subject("topic", "stay.completed"), action="topic.resume")
    write(1)
    page = text(client.get("/audit/?action=topic.resume"))
    assert "resumed stay.completed" in page
    assert "paused booking.created" not in page
    assert 'value="topic.resume"' in client.get("/audit/?action=topic.resume").content.decode()


def test_the_time_range_counts_only_when_the_address_names_it(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(1)
    assert "paused booking.created" in text(client.get("/audit/"))
    assert "No entry matches" in text(client.get("/audit/?from=2020-01-01T00:00Z&to=2020-01-02T00:00Z"))
    assert "paused booking.created" in text(client.get("/audit/?range=1h"))


@pytest.mark.parametrize("query", ["by=aliens", "cursor=x", "q=" + "x" * 201])
def test_a_malformed_address_is_refused_with_a_page(sign_in: Callable[..., Client], query: str) -> None:
    answer = sign_in().get(f"/audit/?{query}")
    assert answer.status_code == 400
    assert query.split("=", maxsplit=1)[0] in text(answer)


def test_a_long_log_comes_in_pages(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    write(60)
    first = client.get("/audit/").content.decode()
    older = re.search(r"cursor=(b\d+)", first)
    assert older is not None
    second = client.get(f"/audit/?cursor={older[1]}").content.decode()
    assert "entries 61 to 12" in first
    assert "entries 11 to 1" in second
    assert "cursor=a11" in second


def test_a_scoped_person_is_told_so_and_sees_their_part(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in(scope="booking.*")
    hidden = write(1, subject=Subject("topic", "stay.completed"))[0]
    seen = write(1)[0]
    page = text(client.get("/audit/"))
    assert "You see what was done in your scope" in page
    assert "booking.created" in page
    assert "stay.completed" not in page
    assert client.get(f"/audit/{hidden.seq}/").status_code == 404
    assert client.get(f"/audit/{seen.seq}/").status_code == 200
    assert f"/audit/{hidden.seq}/" not in client.get(f"/audit/{seen.seq}/").content.decode()


def test_an_entry_opens_to_its_differences(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in()
    before = {"paused": False, "owner": "Reservations", "old": 1, "fields": ["a", "b"], "webhook_secret": "a"}
    after = {"paused": True, "owner": "Reservations", "new": ["x"], "fields": ["b", "c"], "webhook_secret": "b"}
    (entry,) = write(1, before=before, after=after, reason="window")
    answer = client.get(f"/audit/{entry.seq}/")
    page, plain = answer.content.decode(), text(answer)
    assert "2 fields changed" in plain
    assert "paused no yes changed" in plain
    assert 'fields ["a", "b"] ["b", "c"] came: c · went: a changed' in plain
    assert "old , noted before 1" in plain
    assert 'new , noted after ["x"]' in plain
    assert "1 field stayed as it was" in plain
    assert "webhook_secret redacted : whether it changed is not written down" in plain
    assert "<del>" in page
    assert "<ins>" in page
    assert entry.hash in page
    assert "“window”" in plain


def test_an_entry_without_fields_says_so(sign_in: Callable[..., Client], write: Write) -> None:
    (entry,) = write(1, after=None)
    assert "No fields were noted" in text(sign_in().get(f"/audit/{entry.seq}/"))


def test_an_entry_leads_to_what_shares_its_correlation(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in(scope="booking.*")
    with bound(RequestContext("req-1", "corr-1", "")):
        (entry,) = write(1)
        (other,) = write(1, action="topic.resume")
        (hidden,) = write(1, subject=Subject("topic", "stay.completed"))
    ids = {}
    for topic in ("booking.created", "stay.completed"):
        ids[topic] = new_id(1)
        LedgerMessage.objects.create(
            message_id=ids[topic], topic=topic, type=topic, source="/x", key="", correlation_id="corr-1",
            causation_id="", trace_id="", position="1-1", size=1, published_ms=1_790_000_000_000,
        )  # fmt: skip
    page = client.get(f"/audit/{entry.seq}/").content.decode()
    assert f"/audit/{other.seq}/" in page
    assert f"/audit/{hidden.seq}/" not in page
    assert ids["booking.created"] in page
    assert ids["stay.completed"] not in page


def test_nothing_there_is_404(sign_in: Callable[..., Client]) -> None:
    assert sign_in().get("/audit/999/").status_code == 404


def test_the_export_is_for_governors_and_by_post(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in("governor")
    write(2)
    assert client.get("/audit/export/").status_code == 405
    answer = client.post("/audit/export/", {"as": "jsonl", "reason": "review", "target": "booking.created"})
    body = b"".join(answer.streaming_content)  # type: ignore[arg-type]
    assert len(body.splitlines()) == 2
    assert AuditEntry.objects.latest("seq").reason == "review"


@pytest.mark.parametrize("reason", ["", " \t "])
def test_an_export_needs_a_reason_as_every_act_of_a_page(
    sign_in: Callable[..., Client], write: Write, reason: str
) -> None:
    client = sign_in("governor")
    write(2)
    asked = {"as": "jsonl", "reason": reason}
    refused = client.post("/audit/export/", asked, headers={"HBUS-Form": "1"})
    assert (refused.status_code, refused.content.decode()) == (
        422,
        "This act needs a reason. Say why; it is kept in the audit log.",
    )
    assert "This act needs a reason" in text(client.post("/audit/export/", asked, follow=True))
    assert not AuditEntry.objects.filter(action="audit.export").exists()


def test_an_operator_is_offered_no_export_and_is_refused_one(sign_in: Callable[..., Client], write: Write) -> None:
    client = sign_in("operator")
    assert "Export…" not in client.get("/audit/").content.decode()
    assert client.post("/audit/export/", {"as": "csv"}).status_code == 403
    assert AuditEntry.objects.latest("seq").action == "audit.export.refused"


def test_a_page_costs_the_same_however_long_the_log(
    sign_in: Callable[..., Client], write: Write, django_assert_max_num_queries: Any
) -> None:
    client = sign_in()
    write(60)
    client.get("/audit/")
    with django_assert_max_num_queries(12):
        client.get("/audit/")
