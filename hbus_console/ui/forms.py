"""What people type into pages, read leniently. Numbers that are none stay text, which services refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.datastructures import MultiValueDict

from engine.core import numbers

Form = Mapping[str, str]


def text(form: Form, name: str) -> str:
    """A field's text, trimmed; empty when it was not sent."""
    return form.get(name, "").strip()


def lines(form: Form, name: str) -> str:
    """A field of several lines."""
    # Browsers send line ends as CR LF.
    return text(form, name).replace("\r\n", "\n")


def whole(form: Form, name: str) -> Any:
    """A whole number; the text itself when it is none."""
    sent = text(form, name).replace(",", "").replace("_", "")
    number = numbers.whole(sent)
    return sent if number is None else number


def number(form: Form, name: str) -> Any:
    """A number; the text itself when it is none."""
    sent = text(form, name)
    try:
        return float(sent.replace(",", ""))
    except ValueError:
        return sent


def several(form: Form, name: str) -> tuple[str, ...]:
    """Everything that was ticked under one name."""
    return tuple(form.getlist(name)) if isinstance(form, MultiValueDict) else ()


def revision(form: Form) -> int | None:
    """The revision the form was made from; ``None`` when it was not sent, or is none."""
    return numbers.whole(text(form, "revision"))
