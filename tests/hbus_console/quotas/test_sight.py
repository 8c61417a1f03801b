"""Who sees which policies, plans and versions, and who may want tokens of what. All were found by a stranger."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.services.policies import change_policy
from hbus_console.quotas.sight import meets
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
#: Of a merger that nobody outside of payroll is to know of.
SECRET = "payroll.merger"


@pytest.fixture
def policies(make_policy: MakePolicy) -> None:
    make_policy("everybody", 100, service="publish")
    make_policy("bookings", 100, service="publish", resource="booking.*")
    make_policy("merger", 100, service="publish", resource=f"{SECRET}*")
    make_policy("reads", 100, service="api", resource="GET *")
    change_policy(SYSTEM, "everybody", {"limit": 90}, "since payroll.merger began")
    set_plan(SYSTEM, "eve", "gold", "she knows of the merger")


PATHS = (
    "/quotas/",
    "/quotas/plans/",
    "/quotas/versions/",
    "/quotas/versions/{newest}/",
    "/quotas/policies/everybody/",
    "/quotas/try/",
    "/search/?q=merger",
    "/search/?q=eve",
)
ENDPOINTS = (
    "quota/policies",
    "quota/plans",
    "quota/policies/everybody/versions",
    "quota/books/difference?older=1",
)


@pytest.mark.usefixtures("policies")
def test_what_lies_elsewhere_is_told_to_nobody_else(
    signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    newest = QuotaBook.objects.order_by("-number").values_list("number", flat=True)[0]
    narrow, call = signed_in(Role.OPERATOR, "booking.*"), calling(Role.OPERATOR, "booking.*")
    wide, call_wide = signed_in(Role.ADMIN), calling(Role.ADMIN)
    told = {"narrow": "", "wide": ""}
    for path in (path.format(newest=newest) for path in PATHS):
        for who, client in (("narrow", narrow), ("wide", wide)):
            answer = client.get(path)
            assert answer.status_code == 200, path
            # What is searched for stands in its field.
            told[who] += answer.content.decode().replace('value="merger"', "").replace('value="eve"', "")
    for endpoint in ENDPOINTS:
        for who, caller in (("narrow", call), ("wide", call_wide)):
            answer = caller("get", endpoint)
            assert answer.status_code == 200, endpoint
            told[who] += answer.content.decode()
    for secret in (SECRET, "/merger/", "she knows", ">eve<", '"eve"'):
        assert secret in told["wide"], secret
        assert secret not in told["narrow"], secret
    for seen in ("everybody", "bookings", "reads"):
        assert seen in told["narrow"]
    for path in ("/quotas/policies/merger/", "/quotas/chart/?policy=merger", "/quotas/try/?policy=merger"):
        assert narrow.get(path).status_code in (404, 422), path
        assert wide.get(path).status_code == 200, path
    assert call("get", "quota/policies/merger").status_code == 404
    assert call("get", "quota/policies/merger/versions").status_code == 404
    limiter = f"/quotas/?service=publish&resource={SECRET}&tenant=eve"
    assert (narrow.get(limiter).status_code, wide.get(limiter).status_code) == (404, 200)


@pytest.mark.parametrize(
    ("scope", "resource", "seen"),
    [
        ("booking.*", "*", True),
        ("booking.*", "booking.created", True),
        ("booking.*", "book*", True),
        ("booking.*", "booking", True),
        ("booking.*", "*.created", True),
        ("booking.*", "booking?*", True),
        ("booking.*", "bookings.*", False),
        ("booking.*", "payroll.*", False),
        ("booking.*", "b", False),
        ("booking.created", "booking.*", True),
        ("booking.created", "booking.cancelled", False),
        ("*", "payroll.*", True),
    ],
)
def test_a_policy_is_seen_by_whoever_may_meet_it(scope: str, resource: str, seen: bool) -> None:
    assert meets((scope,), {"service": "publish", "resource": resource}) is seen
    assert meets((scope,), {"service": "api", "resource": "GET payroll"})


def _want(call: Caller, service: str, resource: str) -> Any:
    want = {"id": f"{service}.{resource}", "service": service, "resource": resource, "asked": 1_000, "demand": 1e6}
    return call("post", "quota/want", {"node": "n", "wants": [want]})


def test_nobody_wants_tokens_that_hbus_takes_itself_or_that_are_for_another_namespace(
    make_policy: MakePolicy, calling: Callable[..., Caller]
) -> None:
    """One Want of any viewer took what a namespace had left of its month."""
    make_policy("month", 100_000, service="publish", resource=f"{SECRET}*", whose="together", period="month")
    make_policy("search", 10, 10, service="search", resource=f"{SECRET}*", whose="together")
    call, admin = calling(Role.VIEWER, "booking.*"), calling(Role.ADMIN)
    for service in ("publish", "api", "console", "consume", "jobs"):
        refused = _want(admin, service, SECRET)
        assert (refused.status_code, refused.json()["field"]) == (422, "wants[0].service")
    assert _want(call, "search", SECRET).status_code == 403
    assert call("get", f"quota/limits?service=search&resource={SECRET}").status_code == 403
    assert call("get", f"quota/limits?service=publish&resource={SECRET}").status_code == 403
    assert _want(call, "search", "booking.rooms").status_code == 200
    assert call("get", "quota/limits?service=publish&resource=booking.created").status_code == 200
    assert call("get", "quota/limits?service=api&resource=GET+topics").status_code == 200
    assert _want(admin, "search", SECRET).json()["allocs"][0]["limited"]


@pytest.mark.parametrize("resource", ["?anking.loans", "b[a]nking.loans", "[!b]*", "*.loans?x", "hotel*"])
def test_what_no_name_in_the_scope_fits_is_not_met(resource: str) -> None:
    """Found by a stranger: only the letters before the first sign were compared."""
    met = meets(("booking.*",), {"service": "own", "resource": resource})
    assert met is (resource == "*.loans?x")


@pytest.mark.parametrize(
    "resource", ["b?oking.*", "[b]ooking.x*", "*", "*.created", "book*", "booking.?", "b*g.*", "?*"]
)
def test_what_some_name_in_the_scope_fits_is_met(resource: str) -> None:
    assert meets(("booking.*",), {"service": "own", "resource": resource})


def test_it_is_met_exactly_where_some_name_of_the_scope_fits() -> None:
    """Each pattern of up to four signs beside all names of up to four letters: what is left of it fits in these."""
    names = ["ab." + "".join(rest) for count in range(1, 5) for rest in product("ab.", repeat=count)] + ["ab"]
    for count in range(1, 5):
        for signs in product(["a", "b", ".", "*", "?", "[!a]"], repeat=count):
            pattern = "".join(signs)
            expected = any(fnmatchcase(name, pattern) for name in names)
            assert meets(("ab.*",), {"service": "own", "resource": pattern}) is expected, pattern


def test_what_a_policy_was_elsewhere_is_for_who_saw_it_then(
    make_policy: MakePolicy, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    """Found by a stranger: versions, pages and differences told of the namespace that a policy had come from."""
    make_policy("moved", 7, service="own", resource=SECRET, tenant="swissbank")
    change_policy(SYSTEM, "moved", {"resource": "booking.*", "tenant": "*", "limit": 9}, "it moved")
    make_policy("other", 1, service="own", resource="booking.*")
    call, client = calling(Role.VIEWER, "booking.*"), signed_in(Role.VIEWER, "booking.*")
    told = [call("get", each).content for each in ("quota/policies/moved/versions", "quota/books/difference?older=1")]
    told += [client.get(each).content for each in ("/quotas/policies/moved/", "/quotas/versions/2/")]
    for each in told:
        assert b"moved" in each or b"booking" in each
        assert SECRET.encode() not in each
        assert b"swissbank" not in each
    assert SECRET in calling(Role.ADMIN)("get", "quota/policies/moved/versions").content.decode()


def test_the_order_of_policies_tells_nobody_s_plan(make_policy: MakePolicy, signed_in: Callable[..., Client]) -> None:
    """Found by a stranger: a tenant's policy stood beneath that of its plan, which was not to be seen."""
    make_policy("q-book", 100, service="own", resource="booking.*")
    make_policy("q-gold", 50, service="own", resource="booking.*", plan="goldx")
    make_policy("q-late", 20, service="own", resource="booking.*", tenant="late")
    set_plan(SYSTEM, "late", "goldx", "it paid")

    def depths(client: Client) -> int:
        return client.get("/quotas/?q=q-").content.decode().count("indent-2")

    assert depths(signed_in(Role.ADMIN)) == 1
    assert depths(signed_in(Role.VIEWER, "booking.*")) == 0


def test_who_does_not_see_everything_is_not_told_that_nothing_is_there(
    make_policy: MakePolicy, signed_in: Callable[..., Client]
) -> None:
    """Found by a stranger."""
    make_policy("gold", 50, service="own", resource=SECRET, plan="gold")
    set_plan(SYSTEM, "late", "gold", "it paid")
    client = signed_in(Role.VIEWER, "booking.*")
    assert "No setting:" not in client.get("/quotas/versions/2/").content.decode()
    assert "Nothing that you may see." in client.get("/quotas/versions/2/").content.decode()
    assert "it changes nothing for its tenants" not in client.get("/quotas/plans/?plan=gold").content.decode()
