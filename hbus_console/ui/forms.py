"""What people type into pages, read leniently. Numbers that are none stay text, which services refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.datastructures import MultiValueDict

from engine.core import numbers

Form = Mapping[str, str]
#: Thousands are parted everywhere, and by one sign.
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+|(?:_\d{3})+)(?:\.\d*)?")


def text(form: Form, name: str) -> str:
    """A field's text, trimmed; empty when it was not sent."""
    return form.get(name, "").strip()


def lines(form: Form, name: str) -> str:
    """A field of several lines."""
    # Browsers send line ends as CR LF.
    return text(form, name).replace("\r\n", "\n")


def whole(form: Form, name: str) -> Any:
    """A whole number; the text itself when it is none."""
    sent = text(form, name)
    number = numbers.whole(_ungrouped(sent))
    return sent if number is None else number


def number(form: Form, name: str) -> Any:
    """A number; the text itself when it is none."""
    sent = text(form, name)
    plain = _ungrouped(sent)
    try:
        # Python itself would take thousands parted anywhere, and the digits of any script.
        return sent if "_" in plain or not plain.isascii() else float(plain)
    except ValueError:
        return sent


def _ungrouped(sent: str) -> str:
    """Without what parts thousands. A comma anywhere else is the point of half of the world, and is left."""
    return re.sub("[,_]", "", sent) if _GROUPED.fullmatch(sent) else sent


def several(form: Form, name: str) -> tuple[str, ...]:
    """Everything that was ticked under one name."""
    return tuple(form.getlist(name)) if isinstance(form, MultiValueDict) else ()


def revision(form: Form) -> int | None:
    """The revision the form was made from; ``None`` when it was not sent, or is none."""
    return numbers.whole(text(form, "revision"))
