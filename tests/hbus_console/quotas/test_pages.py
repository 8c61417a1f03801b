"""The pages of quotas: what they tell, to whom, and their acts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.errors import BadInput
from engine.quota import QuotaNode, Source
from engine.quota.seating import SeatRules
from engine.quota.seats import SeatKeeper
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts.models import User
from hbus_console.quotas.models import QuotaPolicy, QuotaUse, TenantPlan, UsesTrimmed
from hbus_console.quotas.reports import LimiterReport, NodeReport, keep_report
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.services.policies import change_policy
from hbus_console.quotas.standing import nodes_now
from hbus_console.wiring import quota
from tests.hbus_console.access_world import person
from tests.hbus_console.quotas.booked import book_one
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NOW_MS = round(time.time() * 1000)


def _page(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def page() -> Client:
    return _page(person("ada", "admin"))


def _text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content[:500]
    return " ".join(answer.content.decode().split())


def _used(tenant: str, admitted: int, refused: int, resource: str = "hotels.rates", service: str = "publish") -> None:
    book_one(int(time.time()) // 60 * 60, (service, resource, tenant), admitted, refused)


def _told(node: str, version: int, limiter: LimiterReport, *, away_s: float = 0) -> None:
    now_ms = round(time.time() * 1000)
    away_ms = round(now_ms - away_s * 1000) if away_s else 0
    keep_report(node, now_ms, NodeReport(version, away_ms, (limiter,)))


def _permit(tenant: str, version: int, *, refused_s: float = 0.0, source: Source = Source.PERMIT) -> LimiterReport:
    return LimiterReport(
        "publish", "hotels.rates", tenant, source, 18, 50, 100, version, "p1", 25, 18, 4.1, 49.8, refused_s
    )


def test_an_empty_installation_says_what_a_policy_is(page: Client) -> None:
    html = _text(page, "/quotas/")
    assert "No policy yet" in html
    assert "/quotas/new/" in html


def test_policies_stand_beneath_what_they_narrow(page: Client, make_policy: MakePolicy) -> None:
    make_policy("globetrek", 50, 100, service="publish", resource="hotels.*", tenant="globetrek")
    make_policy("partner", 50, 100, plan="partner")
    make_policy("everyone", 2000, 4000, whose="together")
    set_plan(SYSTEM, "globetrek", "partner")
    html = _text(page, "/quotas/")
    places = [html.index(f'class="indent-{depth}"') for depth in (0, 1, 2)]
    assert places == sorted(places)
    assert "2,000/s · burst 4,000" in html
    assert "publish · hotels.* · tenant globetrek" in html
    assert ">together</span>" in html
    assert "3 policies, version 4" in html


def test_what_is_refused_is_told_at_the_nearest_policy_and_by_node(page: Client, make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000, 4000, whose="together")
    make_policy("globetrek", 50, 100, tenant="globetrek")
    _used("globetrek", 900, 212)
    _told("web-1", 2, _permit("globetrek", 2, refused_s=3))
    _told("web-2", 1, _permit("globetrek", 1, source=Source.FALLBACK), away_s=38)
    html = _text(page, "/quotas/")
    assert html.count('class="num hot-bad">212<') == 1
    assert "version 2 on 1 of 2 nodes" in html
    assert "web-2 is cut off 38" in html
    assert "local fallback" in html
    assert "18 of 25" in html
    assert 'hot-warn" title="The newest is version 2">v1<' in html
    assert "Throttled now" in html
    assert "admitted <b>80.9 %</b> of 1,112 asked" in html


def test_who_may_see_a_namespace_sees_its_uses_and_no_others(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000, 4000)
    _used("globetrek", 900, 212)
    _used("insider", 5, 7, resource="payroll.paid")
    _used("caller", 5, 8, resource="hotels.rates", service="api")
    _told("web-1", 1, _permit("globetrek", 1, refused_s=3))
    seen = _text(_page(person("narrow", "viewer", "hotels.*")), "/quotas/")
    assert "globetrek" in seen
    assert ">212<" in seen
    other = _text(_page(person("other", "viewer", "payroll.*")), "/quotas/")
    assert "globetrek" not in other
    assert ">7<" in other
    assert ">227<" in _text(_page(person("all", "viewer")), "/quotas/")


def test_the_chart_tells_asked_admitted_and_the_limit_as_it_was(page: Client, make_policy: MakePolicy) -> None:
    make_policy("globetrek", 40, 100, tenant="globetrek")
    minute = int(time.time()) // 60 * 60 - 120
    book_one(minute, ("publish", "hotels.rates", "globetrek"), 3000, 600)
    change_policy(SYSTEM, "globetrek", {"limit": 50.0})
    data = page.get("/quotas/chart/?policy=globetrek&range=1h").json()
    asked, admitted = data["series"][0], data["series"][1]
    place = data["t"].index(minute)
    assert (asked["values"][place], admitted["values"][place]) == (60, 50)
    assert "limit 40 → 50 by system" in {mark["label"] for mark in data["marks"]}
    assert page.get("/quotas/chart/").status_code == 400
    assert page.get("/quotas/chart/?policy=nobody").status_code == 404


def test_a_chart_of_a_day_tells_quarters_and_one_of_an_hour_minutes(page: Client, make_policy: MakePolicy) -> None:
    make_policy("everyone", 40, 100)
    quarter = int(time.time()) // 900 * 900 - 1_800
    for minute, admitted in ((quarter, 900), (quarter + 840, 1_800)):
        book_one(minute, ("publish", "hotels.rates", "globetrek"), admitted)
    for of in ("", "&service=publish&resource=hotels.rates&tenant=globetrek"):
        wide = page.get(f"/quotas/chart/?policy=everyone&range=24h{of}").json()
        admitted = dict(zip(wide["t"], wide["series"][1]["values"], strict=True))
        assert wide["t"][1] - wide["t"][0] == 900
        assert [second for second, value in admitted.items() if value] == [quarter]
        assert admitted[quarter] == 3
        near = page.get(f"/quotas/chart/?policy=everyone&range=1h{of}").json()
        admitted = dict(zip(near["t"], near["series"][1]["values"], strict=True))
        assert {second: value for second, value in admitted.items() if value} == {quarter: 15, quarter + 840: 30}
    assert "of 2,700 asked" in _text(page, "/quotas/?range=24h")


def test_what_is_not_kept_for_as_long_as_a_page_asks_is_told(page: Client, make_policy: MakePolicy) -> None:
    make_policy("everyone", 40, 100)
    now = round(time.time())
    begin = now // 900 * 900 - 6 * 3_600
    for minute in (begin, begin + 3_600, now // 60 * 60):
        book_one(minute, ("publish", "hotels.rates", "globetrek"), 900)
    pages = ("/quotas/?range=24h", "/quotas/policies/everyone/?range=24h")
    for path in pages:
        assert "are kept at most" not in _text(page, path)
    # Of single minutes there are those of the last hour alone.
    UsesTrimmed.objects.create(uses="ledger_quota_use", since=now // 60 * 60 - 3_600)
    for path in pages:
        assert "is told by the quarter of an hour: of single minutes 5,000,000 rows are kept at most" in _text(
            page, path
        )
    assert "of 2,700 asked" in _text(page, "/quotas/?range=24h"), "quarters are kept"
    assert "are kept at most" not in _text(page, "/quotas/?range=15m")
    early = f"from={(begin - 600) * 1000}&to={(begin + 1_000) * 1000}"
    data = page.get(f"/quotas/chart/?policy=everyone&{early}").json()
    assert dict(zip(data["t"], data["series"][0]["values"], strict=True)) == {begin - 900: 0, begin: 1}
    # Nor are the quarters of the first hour.
    UsesTrimmed.objects.create(uses="ledger_quota_use_rollup", since=begin + 900)
    for path in pages:
        html = _text(page, path)
        assert "Nothing of what was used before" in html
        assert "is kept: two weeks of it are, and 5,000,000 rows at most." in html
    assert "of 1,800 asked" in _text(page, "/quotas/?range=24h")
    data = page.get("/quotas/chart/?policy=everyone&range=24h").json()
    for second, asked in zip(data["t"], data["series"][0]["values"], strict=True):
        assert (asked is None) == (second < begin + 900)
    ago = f"from={(now - 20 * 86_400) * 1000}"
    assert "is kept: two weeks of it are" in _text(page, f"/quotas/?{ago}")


def test_a_limit_a_day_has_no_line_a_second(page: Client, make_policy: MakePolicy) -> None:
    make_policy("daily", 10_000, period="day")
    data = page.get("/quotas/chart/?policy=daily&range=1h").json()
    assert [series["name"] for series in data["series"]] == ["asked", "admitted"]
    assert "10,000 a day" in _text(page, "/quotas/")


def test_a_policy_is_made_changed_tried_promoted_restored_and_deleted(page: Client, make_policy: MakePolicy) -> None:
    make_policy("first", 1, 1)
    form = {"name": "partners", "owner": "Reservations", "limit": "50", "burst": "", "plan": "partner", "whose": "each"}
    form |= {
        "on_loss": "fallback",
        "fallback_percent": "10",
        "canary_percent": "0",
        "canary_limit": "0",
        "canary_burst": "0",
    }
    refused = page.post("/quotas/new/", {**form, "limit": "many"})
    assert refused.status_code == 422
    assert 'id="e-limit"' in refused.content.decode()
    assert page.post("/quotas/new/", form).headers["Location"] == "/quotas/policies/partners/"
    assert QuotaPolicy.objects.get(name="partners").burst == 50
    changed = {
        **form,
        "burst": "50",
        "revision": "1",
        "canary_percent": "20",
        "canary_limit": "80",
        "canary_burst": "90",
    }
    assert page.post("/quotas/policies/partners/settings/", changed).status_code == 302
    html = _text(page, "/quotas/policies/partners/")
    assert "80/s · burst 90 in place of 50/s · burst 50" in html
    assert "so many percent of the tenants <del>0</del> <ins>20</ins>" in html
    outdated = page.post("/quotas/policies/partners/settings/", changed)
    assert outdated.status_code == 422, "it was changed meanwhile"
    assert 'name="revision" value="1"' in outdated.content.decode(), "sending it again is refused again"
    looked = page.post("/quotas/policies/partners/settings/", {**changed, "preview": "1"})
    assert 'name="revision" value="1"' in looked.content.decode(), "nor does a preview make it newer"
    page.post("/quotas/policies/partners/promote/", {"reason": "it did well"})
    assert QuotaPolicy.objects.get(name="partners").limit == 80
    page.post("/quotas/policies/partners/versions/1/restore/", {"reason": "it did not"})
    assert QuotaPolicy.objects.get(name="partners").limit == 50
    page.post("/quotas/policies/partners/delete/", {"typed_name": "other", "reason": "no more"})
    assert QuotaPolicy.objects.filter(name="partners").exists()
    page.post("/quotas/policies/partners/delete/", {"typed_name": "partners", "reason": "no more"})
    assert not QuotaPolicy.objects.filter(name="partners").exists()


def test_the_page_of_a_policy_says_which_override_holds(page: Client, make_policy: MakePolicy) -> None:
    make_policy("sale", 50, 100, overrides="2020-01-01T00:00..2040-01-01T00:00 120 burst 400 black friday")
    assert "holds now" in _text(page, "/quotas/policies/sale/")
    html = _text(page, "/quotas/")
    assert "120/s · burst 400" in html
    assert "black friday" in html


def test_plans_are_listed_found_and_set(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partner", 50, 100, plan="partner")
    page.post("/quotas/plans/set/", {"tenant": "globetrek", "plan": "partner"})
    assert TenantPlan.objects.get(until__isnull=True).plan == "partner"
    html = _text(page, "/quotas/plans/")
    assert "globetrek" in html
    assert "1 tenant has a plan" in html
    assert "No tenant fits" in _text(page, "/quotas/plans/?q=nobody")
    assert "globetrek" in _text(page, "/search/?q=globe")
    assert "/quotas/policies/partner/" in _text(page, "/search/?q=partn")


def test_a_version_tells_what_it_changed_and_is_gone_back_to(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partner", 50, 100)
    change_policy(SYSTEM, "partner", {"limit": 80.0})
    listed = _text(page, "/quotas/versions/")
    assert "system changed partner ·" in listed
    assert "system created partner ·" in listed
    assert "Limit <del>50</del> <ins>80</ins>" in _text(page, "/quotas/versions/2/")
    assert "Limit <del>80</del> <ins>50</ins>" in _text(page, "/quotas/versions/1/")
    answer = page.post("/quotas/versions/1/roll-back/", {"reason": "too much"})
    assert answer.headers["Location"] == "/quotas/versions/3/"
    assert QuotaPolicy.objects.get().limit == 50
    assert page.get("/quotas/versions/9/").status_code == 404


def test_what_needs_a_person_is_told_to_who_sees_everything(page: Client, make_policy: MakePolicy) -> None:
    make_policy("orphan", 50, 100)
    QuotaPolicy.objects.update(team=None)
    _told("web-2", 1, _permit("globetrek", 1, source=Source.FALLBACK), away_s=38)
    html = _text(page, "/")
    assert "web-2 is cut off from the quota control plane" in html
    assert "Quota policy orphan has no owner" in html
    assert "orphan" not in _text(_page(person("narrow", "viewer", "hotels.*")), "/")
    assert newest_book() is not None


def test_what_is_for_sale_is_told_with_who_claims_it(
    page: Client, make_policy: MakePolicy, settings: Settings, committed: Callable[..., None]
) -> None:
    settings.HBUS_QUOTAS = True
    committed(lambda: make_policy("everyone", 40, 80, service="publish", whose="together"))
    committed(lambda: make_policy("globetrek", 50, 100, service="publish", tenant="globetrek"))
    _used("globetrek", 900, 212)
    node = QuotaNode("web-7", quota.control_plane(), book=newest_book())
    assert node.limiter("publish", "hotels.rates", "globetrek").reserve(1, 0) is not None
    node.turn()
    html = _text(page, "/quotas/?policy=globetrek")
    assert "What is for sale" in html
    assert "of 100 tokens, and 50 more each second" in html
    assert "of 80 tokens, and 40 more each second" in html
    assert html.count('<th scope="row">web-7</th>') == 2
    narrow = _text(_page(person("narrow", "viewer", "payroll.*")), "/quotas/?policy=everyone")
    assert "web-7" not in narrow
    node.stop()


def test_a_policy_of_seats_shows_who_is_at_work(
    page: Client, make_policy: MakePolicy, settings: Settings, committed: Callable[..., None]
) -> None:
    settings.HBUS_QUOTAS = True
    committed(lambda: make_policy("uploads", 3, service="publish", period="at once"))
    assert "3 at once" in _text(page, "/quotas/")
    assert "Nobody has asked for a seat of late" in _text(page, "/quotas/?policy=uploads")
    _used("globetrek", 900, 212)
    keeper = SeatKeeper("web-7", quota.seat_plane())
    links = SeatRules(newest_book).links("publish", "hotels.rates", "globetrek")
    seats = [keeper.enter(links) for _ in range(3)]
    html = _text(page, "/quotas/?policy=uploads")
    assert '<th scope="row">globetrek</th> <td class="num hot-warn">3</td><td class="num">3</td>' in html
    assert "web-7 3" in html
    seats[0].leave()
    assert '<td class="num ">2</td>' in _text(page, "/quotas/?policy=uploads")


def test_nobody_is_served_by_half(page: Client, make_policy: MakePolicy) -> None:
    with pytest.raises(BadInput, match="by half"):
        make_policy("uploads", 2.5, service="publish", period="at once")


def test_a_preview_tells_what_the_last_day_would_have_been_and_saves_nothing(
    page: Client, make_policy: MakePolicy
) -> None:
    make_policy("partners", 50, 100, service="publish", resource="hotels.*")
    _used("globetrek", 900, 100)
    _used("sunways", 30, 0)
    form = {
        "service": "publish", "resource": "hotels.*", "tenant": "*", "plan": "", "whose": "each", "limit": "1",
        "burst": "10", "period": "", "zone": "UTC", "on_loss": "fallback", "fallback_percent": "10", "weight": "1",
        "floor": "0", "priority": "0", "canary_percent": "0", "canary_limit": "0", "canary_burst": "0",
        "revision": "1", "owner": "Reservations", "preview": "1",
    }  # fmt: skip
    answer = page.post("/quotas/policies/partners/settings/", form)
    assert answer.status_code == 200
    html = " ".join(answer.content.decode().split())
    # Of globetrek's 1,000 from 10 to 70, of 30 from 10 to 30.
    assert "<b>1.9 to 9.7 %</b>" in html
    assert "of 1,030 tokens that were asked; 100 were refused as it was" in html
    assert "2 tenants would have been refused something" in html
    assert 'name="limit" type="text" value="1' in html, "what was typed stays"
    assert QuotaPolicy.objects.get(name="partners").limit == 50
    sale = {**form, "overrides": "2020-01-01T00:00..2090-01-01T00:00 500 sale"}
    html = " ".join(page.post("/quotas/policies/partners/settings/", sale).content.decode().split())
    assert "<b>1/s · burst 10</b> would have admitted <b>1.9 to 9.7 %</b>" in html, "by the limit that it names"
    assert "all day, without other limits at times." in html
    together = page.post("/quotas/policies/partners/settings/", {**form, "whose": "together", "limit": "100"})
    assert "all together" in together.content.decode()
    bad = page.post("/quotas/policies/partners/settings/", {**form, "limit": "-1"})
    assert bad.status_code == 422
    nothing = page.post("/quotas/new/", {**form, "name": "others", "resource": "nobody.asked"})
    assert "Nothing of it was asked in the last day" in nothing.content.decode()


def test_what_was_waited_for_is_told_beside_what_was_refused(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partners", 100)
    assert "waited" not in _text(page, "/quotas/")
    _used("globetrek", 900, 212)
    QuotaUse.objects.update(delayed=1_234)
    assert "1,234 waited" in _text(page, "/quotas/")
    assert "1,234 waited for" in _text(page, "/quotas/policies/partners/")


def test_a_policy_page_tells_the_limit_that_holds_now(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partners", 9, 5, overrides="2020-01-01T00:00..2090-01-01T00:00 12 burst 40 sale")
    html = _text(page, "/quotas/policies/partners/")
    assert '12/s · burst 40 <span class="badge warn">sale</span> in place of 9/s · burst 5' in html


def test_for_how_long_a_node_is_cut_off_goes_on_while_it_tells_nothing() -> None:
    keep_report("web-1", NOW_MS, NodeReport(1, NOW_MS - 1_000))
    looks = [nodes_now(now_ms) for now_ms in (NOW_MS, NOW_MS + 9_000)]
    assert [node.away_s for nodes in looks for node in nodes if node.name == "web-1"] == [1.0, 10.0]


def test_a_policy_that_is_not_there_is_told(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partners", 9)
    assert "There is no such policy" in _text(page, "/quotas/?policy=nope")
    assert "There is no such policy" not in _text(page, "/quotas/?policy=partners")
    assert "There is no such policy" not in _text(page, "/quotas/")
