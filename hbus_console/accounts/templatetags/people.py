"""People on pages that stand below the accounts."""

from __future__ import annotations

from django import template

from hbus_console.access.permissions import Forbidden
from hbus_console.accounts import people

register = template.Library()


@register.simple_tag
def who_can_help(problem: Forbidden) -> people.Help:
    """``{% who_can_help problem as helpers %}``: the people to ask about a refusal."""
    return people.who_can_help(problem)
