"""The rules an installation begins with. They are nobody's in particular: every editor may change them."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction

from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Evaluation, Rule
from hbus_console.alerts.services.rule_draft import RuleDraft
from hbus_console.alerts.services.rules import create_rule


def default_rules() -> list[RuleDraft]:
    """Those that the installed kinds bring."""
    return [RuleDraft(kind=kind.name, **asdict(rule)) for kind in kinds().values() for rule in kind.defaults]


@transaction.atomic
def ensure_defaults() -> int:
    """Make those of every kind that is here for the first time; returns how many were made.

    Who deletes them does not get them again, and one whose name is taken is left out.
    Raises :class:`~engine.core.errors.ConfigurationError` when two features bring a kind of the same name.
    """
    installed = kinds().keys()
    state, _ = Evaluation.objects.select_for_update().get_or_create(pk=1)
    new = installed - set(state.defaults_made)
    if not new:
        return 0
    wanted = [draft for draft in default_rules() if draft.kind in new]
    made = [draft for draft in wanted if not Rule.objects.filter(name__iexact=draft.name).exists()]
    for draft in made:
        create_rule(SYSTEM, draft, "every installation begins with these")
    state.defaults_made = sorted({*state.defaults_made, *new})
    state.save(update_fields=["defaults_made"])
    return len(made)
