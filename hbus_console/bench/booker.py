"""The keeper's bookkeeping alone, in a process of its own, until the ledger holds what it should."""

from __future__ import annotations

import sys
import time

import django
from django.conf import settings
from django.db.models import Count, Max, Q


def main() -> None:
    django.setup()
    # Models can be imported only now.
    from hbus_console.evidence.collector import FactCollector
    from hbus_console.evidence.fact_stream import FactReader
    from hbus_console.messages.models import LedgerEvent
    from hbus_console.wiring import store

    expected = int(sys.argv[1])
    collector = FactCollector(FactReader(store.client(), settings.HBUS_PREFIX))
    print("ready", flush=True)
    spent = time.process_time()
    deadline = time.monotonic() + 300
    booked, last = 0, 0
    while time.monotonic() < deadline:
        collector.tick()
        # What is new alone: to count all of them each time would be a good part of what is measured.
        new = LedgerEvent.objects.filter(pk__gt=last).aggregate(
            last=Max("pk"), settled=Count("pk", filter=Q(kind="settled"))
        )
        booked, last = booked + new["settled"], new["last"] or last
        if booked >= expected:
            print(f"booked {time.time()} {time.process_time() - spent}", flush=True)
            return
        time.sleep(0.02)
    raise SystemExit("the ledger did not fill in time")


if __name__ == "__main__":
    main()
