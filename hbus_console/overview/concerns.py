"""What needs a person now: each concern one sentence, with the one next step. The worst comes first."""

from __future__ import annotations

from hbus_console.registry.loading import features, resolve
from hbus_console.ui.concern import Concern, Look


def concerns(look: Look) -> list[Concern]:
    """Everything that waits for somebody, in what ``look.actor`` may see; the worst first, otherwise by its place."""
    found = [it for feature in features() for dotted in feature.concerns for it in resolve(dotted)(look)]
    return sorted(found, key=lambda concern: (concern.urgency, concern.place))
