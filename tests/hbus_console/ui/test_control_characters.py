"""What a stranger's message holds reaches neither a page's parser nor a terminal as a command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape

import pytest
from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.test import RequestFactory

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.drafts.setting import JsonObject
from hbus_console.jobs.parameter_form import as_json, parameter_fields
from hbus_console.ui.control_characters import ControlCharactersMiddleware, escaped, json_to_send
from hbus_console.ui.curl import written

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


def all_that_a_page_replaces() -> list[str]:
    texts = [chr(code) for code in range(0x11_0000) if not 0xD800 <= code < 0xE000]
    page = through(HttpResponse("".join(texts))).content.decode()  # type: ignore[attr-defined]
    return [text for text, shown in zip(texts, page, strict=True) if text != shown]


EVERY = "".join(all_that_a_page_replaces())


def sent_back(text: str) -> str:
    """What a browser sends of a field that a page fills with ``text``."""
    page = through(HttpResponse(f"<textarea>{text}</textarea>")).content.decode()  # type: ignore[attr-defined]
    (found,) = re.findall(r"<textarea>(.*)</textarea>", page, re.DOTALL)
    return unescape(found)


@pytest.mark.parametrize(
    "filled",
    [
        json_to_send,
        as_json,
        written,
        JsonObject(act="").shown,  # type: ignore[arg-type]
        # As a browser sends what somebody typed, and a refusal shows it again.
        lambda value: escaped(json.dumps(value, ensure_ascii=False)),
    ],
    ids=["any", "the parameters of a run", "a command", "a setting", "what was typed"],
)
def test_json_comes_back_from_a_page_as_it_was(filled: Callable[[object], str]) -> None:
    value = {"note": f"a{EVERY}b\tü\n", EVERY: [1, None, "\\u202e"]}
    assert json.loads(sent_back(filled(value))) == value


def test_a_text_that_a_page_shows_otherwise_is_refused_by_its_name() -> None:
    for each in EVERY:
        with pytest.raises(BadInput, match="Target holds control") as refused:
            checks.text(f"a{each}b", "target", most=9, lines=True)
        assert refused.value.field == "target"
    assert checks.text("שלום ü\nb", "target", most=9, lines=True)


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u206a", "\u206f"])
def test_a_mark_of_direction_is_in_no_text_that_somebody_names_or_tells_a_thing_by(mark: str) -> None:
    with pytest.raises(BadInput, match="Reason holds control") as refused:
        checks.reason(f"a{mark}b")
    assert "marks of direction" in refused.value.what
    assert checks.holds_not_shown(f"a{mark}b")


@pytest.mark.parametrize("hostile", ["a\u202eb", "a\x85b", "two\nlines"])
def test_what_an_input_would_change_is_asked_for_as_json(hostile: str) -> None:
    schema = {"properties": {"note": {"type": "string"}}}
    assert parameter_fields(schema, {"note": "plain"})
    assert parameter_fields(schema, {"note": hostile}) is None
    assert parameter_fields({"properties": {"note": {"type": "string", "enum": ["a", hostile]}}}, {}) is None
