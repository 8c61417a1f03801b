"""No answer carries a raw control character, whoever wrote what it shows: in HTML none is allowed, and a terminal obeys
those that a JSON text may hold. Nor what turns the letters behind it around: a name would read as another's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from hbus_console.checks import NOT_SHOWN

#: Those of ASCII but for tab and the ends of lines, those of Latin-1, and U+202A to U+202E and U+2066 to U+206F, which
#: overrule the direction of what is written; as UTF-8 has them. The marks that languages of both directions need stay.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xaf])")
#: The same in a text.
_IN_TEXT = re.compile(f"[{NOT_SHOWN}]")
#: Unicode has a picture of each control character of ASCII: ␛ for escape.
_PICTURES = 0x2400
_PICTURE_OF_DELETE = "\u2421"


def json_to_send(value: Any, *, indent: int | None = 2, default: Callable[[Any], Any] | None = None) -> str:
    """``value`` as JSON that a form sends back, or a person copies off a page: it means the same when it comes."""
    return escaped(json.dumps(value, indent=indent, ensure_ascii=False, default=default))


def escaped(typed: str) -> str:
    """JSON that somebody ``typed``, as :func:`json_to_send` would write it; what is no JSON stays none."""
    return _IN_TEXT.sub(lambda found: f"\\u{ord(found.group()):04x}", typed)


class ControlCharactersMiddleware:
    """Shows them as pictures on a page, and escapes them in JSON. What is neither is left as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        kind = response.headers.get("Content-Type", "")
        if kind.startswith("text/html"):
            shown = _picture
        elif "json" in kind.partition(";")[0]:
            shown = _escape
        else:
            return response
        if isinstance(response, HttpResponse):
            if _CONTROL.search(response.content):
                response.content = _CONTROL.sub(shown, response.content)
        elif isinstance(response, StreamingHttpResponse) and not response.is_async:
            # A part is a line or more, so none ends within a character.
            response.streaming_content = (_CONTROL.sub(shown, part) for part in response)
        return response


def _picture(found: re.Match[bytes]) -> bytes:
    code = ord(found.group().decode())
    return (chr(_PICTURES + code) if code < 0x20 else _PICTURE_OF_DELETE if code == 0x7F else "\ufffd").encode()


def _escape(found: re.Match[bytes]) -> bytes:
    # Outside of strings JSON has none of them.
    return b"\\u%04x" % ord(found.group().decode())
