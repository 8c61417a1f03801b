"""People on pages that stand below the accounts."""

from __future__ import annotations

from django import template
from django.template import Context

from hbus_console.access.permissions import Forbidden
from hbus_console.accounts import people

register = template.Library()


@register.simple_tag(takes_context=True)
def who_can_help(context: Context, problem: Forbidden) -> people.Help:
    """``{% who_can_help problem as helpers %}``: the people whom whoever looks may ask about a refusal."""
    return people.who_can_help(problem, context["request"].actor)
