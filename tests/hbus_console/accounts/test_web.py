"""The door before every page, with pages of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path

from engine.core.errors import BadInput, ConfigurationError, Conflict, NotThere, Unavailable
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.access.web import ANEW, FIRST, FORM_MARK, actor, console_view, field_errors
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.feature import PUBLISH
from hbus_console.topics.feature import TOPIC_DELETE, TOPIC_PAUSE

MakeUser = Callable[..., User]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@console_view(VIEW, post=TOPIC_PAUSE, resource="{name}")
def topic(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(f"{request.method} {name}")


@console_view(PUBLISH, resource=SOMEWHERE)
def form(request: HttpRequest) -> HttpResponse:
    return HttpResponse("form")


@console_view(VIEW)
async def asynchronous(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"async {actor(request).name}")


@console_view(VIEW, stream=True)
async def stream(request: HttpRequest) -> HttpResponse:
    return HttpResponse("stream")


@console_view(VIEW)
def late(request: HttpRequest) -> HttpResponse:
    """A service that refuses within the view."""
    require(actor(request), TOPIC_DELETE, "booking.created")
    return HttpResponse("deleted")


def _raising(error: Exception) -> Any:
    @console_view(VIEW)
    def view(request: HttpRequest) -> HttpResponse:
        raise error

    return view


ERRORS = {
    "bad": (BadInput("Odd.", remedy="Even it.", field="count"), 400, "That does not work"),
    "there": (NotThere("No such thing.", remedy="Look elsewhere."), 404, "Not there"),
    "conflict": (Conflict("Changed meanwhile.", remedy="Reload."), 409, "It has moved on"),
    "down": (Unavailable("No store.", remedy="Start it."), 503, "Not available right now"),
}
urlpatterns = [
    path("t/<str:name>/", topic),
    path("form/", form),
    path("async/", asynchronous),
    path("stream/", stream),
    path("late/", late),
    path("foreign/", _raising(ConfigurationError("x"))),
    path("gone/", _raising(Http404("x"))),
    *[path(f"{name}/", _raising(error)) for name, (error, _, _) in ERRORS.items()],
    path("", include("hbus_console.urls")),
]


@pytest.fixture(autouse=True)
def _pages() -> Any:
    with override_settings(ROOT_URLCONF=__name__):
        yield


@pytest.fixture
def anna(make_user: MakeUser, client: Client) -> User:
    user = make_user("anna", "operator", "booking.*")
    client.force_login(user)
    return user


@pytest.mark.parametrize("address", ["/t/booking.created/", "/async/", "/form/"])
def test_nobody_signed_in_goes_to_the_login_and_comes_back(client: Client, address: str) -> None:
    answer = client.get(f"{address}?a=1")
    assert answer["Location"] == f"/login/?next={address.replace('/', '%2F')}%3Fa%3D1"


def test_a_post_does_not_come_back_to_where_it_was_sent(client: Client) -> None:
    assert client.post("/t/a/")["Location"] == "/login/?ended=1"


def test_a_post_comes_back_to_the_page_that_sent_it(client: Client) -> None:
    sent = client.post("/t/a/", headers={"Referer": "http://testserver/topics/?q=a"})
    assert sent["Location"] == "/login/?next=http%3A%2F%2Ftestserver%2Ftopics%2F%3Fq%3Da&ended=1"
    login = client.get(sent["Location"]).content.decode()
    assert "You were signed out, or your session has ended." in login
    assert 'name="next" value="http://testserver/topics/?q=a"' in login
    assert "signed out" not in client.get(client.get("/t/a/")["Location"]).content.decode()
    client.cookies[settings.SESSION_COOKIE_NAME] = "of-a-session-that-ended"
    assert client.get("/t/a/")["Location"] == "/login/?next=%2Ft%2Fa%2F&ended=1"


def test_a_form_of_the_script_stays_where_it_is_when_its_session_has_ended(client: Client) -> None:
    kept = client.post("/t/a/", headers={FORM_MARK: "1", "Referer": "http://testserver/topics/"})
    assert kept.status_code == 401
    assert kept[FIRST] == "/login/?next=http%3A%2F%2Ftestserver%2Ftopics%2F&ended=1"
    assert kept["Content-Type"].startswith("text/plain")
    assert kept.content.decode().startswith("You were signed out, and nothing was done. What you typed is kept here:")


def test_a_form_of_the_script_says_that_the_password_comes_first(client: Client, make_user: MakeUser) -> None:
    user = make_user("anna", "admin")
    User.objects.filter(pk=user.pk).update(must_change_password=True)
    client.force_login(User.objects.get(pk=user.pk))
    kept = client.post("/t/a/", headers={FORM_MARK: "1"})
    assert (kept.status_code, kept[FIRST]) == (401, "/password/")


@pytest.mark.parametrize("mark", [FORM_MARK, "HX-Request"])
def test_whoever_signed_in_anew_elsewhere_is_given_the_token_of_that_session(make_user: MakeUser, mark: str) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("anna", "admin"))
    stale = {"csrfmiddlewaretoken": "a" * 64}
    headers = {mark: "1"}
    refused = browser.post("/t/a/", stale, headers=headers)
    assert refused.status_code == 403
    assert "somebody signed in here anew, as anna. What you typed is kept here" in refused.content.decode()
    again = browser.post("/t/a/", {"csrfmiddlewaretoken": refused[ANEW]}, headers=headers)
    assert again.content.decode() == "POST a"


def test_no_other_site_and_nobody_is_given_a_token(make_user: MakeUser) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert ANEW not in browser.post("/t/a/", headers={FORM_MARK: "1"})
    browser.force_login(make_user("anna", "admin"))
    unmarked = browser.post("/t/a/")
    foreign = browser.post("/t/a/", headers={FORM_MARK: "1", "Origin": "https://elsewhere.example"})
    for answer in (unmarked, foreign):
        assert (answer.status_code, ANEW in answer) == (403, False)
        assert "Please send that again" in answer.content.decode()


def test_an_htmx_request_makes_the_browser_go_there(client: Client) -> None:
    answer = client.get("/form/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/audit/"})
    assert answer.status_code == 200
    assert answer["HX-Redirect"] == "/login/?next=http%3A%2F%2Ftestserver%2Faudit%2F&ended=1"


def test_a_stream_is_told_401(client: Client) -> None:
    assert client.get("/stream/").status_code == 401


def test_inside_the_scope_the_page_opens(client: Client, anna: User) -> None:
    assert client.get("/t/booking.created/").content == b"GET booking.created"
    assert client.post("/t/booking.created/").content == b"POST booking.created"
    assert client.get("/form/").content == b"form"
    assert client.get("/async/").content == b"async anna"
    assert client.get("/stream/").content == b"stream"


def test_outside_it_a_page_says_what_it_takes_and_whom_to_ask(client: Client, anna: User, make_user: MakeUser) -> None:
    make_user("otto", "viewer", "stay.*")
    make_user("root", "admin")
    answer = client.get("/t/stay.completed/")
    assert answer.status_code == 403
    page = answer.content.decode()
    assert "anna may not look at this on stay.completed." in page
    # That somebody was given rights there would tell that it is there.
    assert "<dt>May do it</dt><dd>root</dd>" in page, page
    assert "otto" not in page
    for number in range(5):
        make_user(f"vera{number}", "viewer")
    assert "root, vera0, vera1, vera2, vera3 and 1 more" in client.get("/t/stay.completed/").content.decode()
    assert '<dt>Act</dt><dd class="mono">view</dd>' in page
    assert "operator on" in page


def test_of_what_one_sees_all_who_may_do_it_are_named(client: Client, make_user: MakeUser) -> None:
    client.force_login(make_user("vera", "viewer", "booking.*"))
    make_user("otto", "operator", "booking.created")
    make_user("olga", "operator", "stay.*")
    make_user("root", "admin")
    page = client.post("/t/booking.created/").content.decode()
    assert "otto, root</dd>" in page


def test_a_refused_look_is_no_audit_entry_but_a_refused_act_is(client: Client, anna: User) -> None:
    before = AuditEntry.objects.count()
    client.get("/t/stay.completed/")
    assert AuditEntry.objects.count() == before
    client.get("/late/")
    entry = AuditEntry.objects.latest("seq")
    assert (entry.action, entry.actor, entry.target_type, entry.target, entry.namespace) == (
        "topic.delete.refused",
        "anna",
        "topic",
        "booking.created",
        "booking.created",
    )
    assert entry.request_id


def test_post_asks_for_its_own_action(client: Client, make_user: MakeUser) -> None:
    client.force_login(make_user("vera", "viewer"))
    assert client.get("/t/a/").status_code == 200
    assert client.post("/t/a/").status_code == 403
    assert AuditEntry.objects.latest("seq").action == "topic.pause.refused"


@pytest.mark.parametrize("name", ERRORS)
def test_our_errors_have_a_page(client: Client, anna: User, name: str) -> None:
    error, status, title = ERRORS[name]
    answer = client.get(f"/{name}/")
    page = answer.content.decode()
    assert answer.status_code == status
    assert title in page
    assert error.what in page
    assert error.remedy in page


def test_an_error_no_page_is_made_for_goes_on(client: Client, anna: User) -> None:
    with pytest.raises(ConfigurationError):
        client.get("/foreign/")
    assert client.get("/gone/").status_code == 404


def test_who_must_change_their_password_is_led_there_first(client: Client, anna: User) -> None:
    User.objects.update(must_change_password=True)
    assert client.get("/form/")["Location"] == "/password/"
    assert client.get("/async/")["Location"] == "/password/"


def test_a_stale_form_is_refused_with_a_page(anna: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(anna)
    answer = strict.post("/t/booking.created/")
    assert answer.status_code == 403
    assert "reload the page" in answer.content.decode()


def test_a_refusal_stands_at_its_field() -> None:
    assert field_errors(BadInput("Odd.", field="count")) == {"count": "Odd."}


@pytest.mark.parametrize("address", ["/", "/login/", "/topics/", "/api/v1/me", "/nothing-here/", "/live/", "/readyz"])
def test_no_answer_to_anybody_is_kept_by_a_cache(client: Client, make_user: MakeUser, address: str) -> None:
    for name in ("", "viewer"):
        if name:
            client.force_login(make_user("anna", name))
        kept = client.get(address)["Cache-Control"]
        assert "no-store" in kept
        if address in ("/", "/topics/", "/api/v1/me"):
            assert "private" in kept
