"""What endpoints take: unknown fields are refused; absent ones keep their default, or stay as they are."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request body."""

    def given(self, *leave: str) -> dict[str, Any]:
        """The fields that were sent, without those in ``leave``."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET and name not in leave
        }


class ReasonBody(Body):
    """Why; kept in the audit log."""

    reason: str = ""


class DeleteBody(Body):
    """A deletion names what goes a second time, and why."""

    typed_name: str
    reason: str
