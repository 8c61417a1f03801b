"""That somebody was refused something: told by the doors, page and endpoint, to whoever keeps book of it."""

from __future__ import annotations

from django.dispatch import Signal

#: ``send(None, actor=…, error=…)`` with an ``Actor`` and a ``Forbidden``, after the transaction of the refused act has
#: rolled back. What a receiver raises goes on to whoever asked: no refusal is without its entry, or its
#: place in a count that is told.
refused = Signal()
