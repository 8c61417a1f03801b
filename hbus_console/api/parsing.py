"""Reading a request's body: bounded, and strict about what is JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.parsers import BaseParser

from engine.core.errors import BadInput
from engine.core.json_values import holds_more_than
from engine.core.nesting import DEEPEST, too_deep
from engine.core.strict_json import MOST_TYPED, why_no_json


def bounded(stream: Any) -> bytes:
    """What is left of ``stream``; raises ``RequestDataTooBig`` beyond ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes."""
    limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    body: bytes = stream.read(limit + 1)
    if len(body) > limit:
        raise RequestDataTooBig(f"The request body has more than {limit:,} bytes.")
    return body


def refuse_more_values(body: bytes, most: int) -> None:
    """Raise ``BadInput`` for JSON of so many that reading it would keep everybody waiting."""
    if holds_more_than(most, body):
        raise BadInput(f"The body holds more than {most:,} values.", remedy="Send less at once.")


class JsonBody(BaseParser):
    """A JSON body, as Python values. Raises ``BadInput`` for what is no JSON, nests too deep, or holds too much."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        body = bounded(stream)
        refuse_more_values(body, MOST_TYPED)
        if too_deep(body):
            raise BadInput(f"The body nests deeper than {DEEPEST} levels.", remedy="Flatten it.")
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadInput(
                f"The body is not JSON: {why_no_json(body, error)}.", remedy="Send valid JSON in UTF-8."
            ) from None
