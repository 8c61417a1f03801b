"""What a stranger's message holds reaches neither a page's parser nor a terminal as a command."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.test import RequestFactory

from hbus_console.ui.control_characters import ControlCharactersMiddleware

HOSTILE = "a\x00\x1b[2J\x7f\x9b31m\tü\r\n\u2028ÃÂ\x85"


def through(answer: HttpResponseBase) -> HttpResponseBase:
    return ControlCharactersMiddleware(lambda _: answer)(RequestFactory().get("/"))


def test_a_page_shows_pictures_of_them() -> None:
    answer = through(HttpResponse(f"<p>{HOSTILE}</p>"))
    assert answer.content.decode() == "<p>a␀␛[2J␡\ufffd31m\tü\r\n\u2028ÃÂ\ufffd</p>"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "made",
    [
        lambda: JsonResponse({"key": HOSTILE}, json_dumps_params={"ensure_ascii": False}),
        lambda: HttpResponse(json.dumps({"key": HOSTILE}, ensure_ascii=False), content_type="application/problem+json"),
        lambda: StreamingHttpResponse(
            iter([json.dumps({"key": HOSTILE}, ensure_ascii=False) + "\n"]), content_type="application/x-ndjson"
        ),
    ],
    ids=["json", "a problem", "lines"],
)
def test_json_says_the_same_without_one(made: Callable[[], HttpResponseBase]) -> None:
    answer = through(made())
    body = b"".join(answer) if answer.streaming else answer.content  # type: ignore[attr-defined, arg-type]
    assert json.loads(body) == {"key": HOSTILE}
    assert not any((char < " " and char != "\n") or "\x7f" <= char <= "\x9f" for char in body.decode())


def test_nothing_turns_what_stands_behind_it_around() -> None:
    page = through(HttpResponse("<p>\u202egpj.exe\u2066\u2069 \u200fשלום\u2065\u202f</p>"))
    assert page.content.decode() == "<p>\ufffdgpj.exe\ufffd\ufffd \u200fשלום\u2065\u202f</p>"  # type: ignore[attr-defined]
    told = through(JsonResponse({"key": "\u202egpj"}, json_dumps_params={"ensure_ascii": False}))
    assert json.loads(told.content) == {"key": "\u202egpj"}  # type: ignore[attr-defined]
    assert "\u202e" not in told.content.decode()  # type: ignore[attr-defined]


def test_what_is_neither_is_left_alone() -> None:
    answer = through(HttpResponse(b"\x1b\x00", content_type="application/octet-stream"))
    assert answer.content == b"\x1b\x00"  # type: ignore[attr-defined]
