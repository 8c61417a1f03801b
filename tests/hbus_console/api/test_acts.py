"""Acts of one shape: the actor, what the address names, and a reason go in, and what came of it comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client, override_settings
from django.urls import path

from hbus_console.api.acts import reason_act
from hbus_console.api.answers import answers
from hbus_console.api.bodies import Body
from tests.hbus_console.api.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class DoneOut(Body):
    said: list[str]


Knock = reason_act(
    lambda actor, house, door, reason: [house, str(door), reason, actor.name],
    operation_id="knock",
    summary="Knock",
    tag="doors",
    gives=answers(DoneOut),
    shown=lambda said: {"said": said},
)
urlpatterns = [path("api/v1/houses/<str:house>/doors/<int:door>/knock", Knock.as_view())]


@pytest.fixture
def knocked(program: Callable[..., Caller]) -> Iterator[Caller]:
    with override_settings(ROOT_URLCONF=__name__):
        yield program()


def test_it_is_done_with_what_the_address_names_and_the_reason(knocked: Caller) -> None:
    answer = knocked("POST", "houses/red/doors/3/knock", {"reason": "is anybody there?"})
    assert answer.status_code == 200
    assert answer.json()["said"][:3] == ["red", "3", "is anybody there?"]


def test_what_is_no_reason_is_refused(knocked: Caller) -> None:
    for body, field in (({"reason": 1}, "reason"), ({"because": "so"}, "because")):
        answer = knocked("POST", "houses/red/doors/3/knock", body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_nothing_is_done_for_who_does_not_say_who_he_is() -> None:
    with override_settings(ROOT_URLCONF=__name__):
        assert Client().post("/api/v1/houses/red/doors/3/knock").status_code in (401, 403)
