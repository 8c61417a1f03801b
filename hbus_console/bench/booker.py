"""The keeper's bookkeeping alone, in a process of its own, until the ledger holds what it should."""

from __future__ import annotations

import sys
import time

import django
from django.conf import settings


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
    while time.monotonic() < deadline:
        collector.tick()
        if LedgerEvent.objects.filter(kind="settled").count() >= expected:
            print(f"booked {time.time()} {time.process_time() - spent}", flush=True)
            return
        time.sleep(0.02)
    raise SystemExit("the ledger did not fill in time")


if __name__ == "__main__":
    main()
