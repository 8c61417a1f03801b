"""The SQL that is written by hand, on a real PostgreSQL: booking, bounds, searching, grouping, rates."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import RunningInstallation
from tests.postgres import RealPostgres, find_binaries

pytestmark = pytest.mark.xdist_group("installation")

_PROBE = """
import json
from datetime import timedelta
import redis
from django.conf import settings
from engine.core.clock import ManualClock, to_datetime
from engine.bus.facts import Fact, batches
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole
from hbus_console.deadletters import groups
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages import search
from hbus_console.traffic import flow
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader, FactStream
from hbus_console.evidence.models import Notice
from hbus_console.messages.models import *
from hbus_console.messages.retention import LedgerRetention

AT = 1_790_000_000_000
VIEWER = Actor(name="v", grants=(ScopedRole(Role.VIEWER, "*"),))
client = redis.Redis.from_url(settings.REDIS_URL)
stream = FactStream(client, settings.HBUS_PREFIX)
facts = []
for n in range(200):
    facts += [
        Fact("published", AT + n * 1000, topic="t.a", message_id=f"m{n:04}", source="/s\\x00", type="t", key="k" * 900,
             correlation_id="c", position="1-0", size=2**40),
        Fact("settled", AT + n * 1000 + 5, topic="t.a", subscription="g", message_id=f"m{n:04}", source="/s", attempt=1,
             duration_us=1000, detail="\\x00" + "d" * 900),
    ]
stream.write(batches(facts))
stream.write(batches([Fact("delayed", AT, topic="t.a", message_id="m0000", source="/s", due_ms=AT + 5),
                      Fact("retention_held", AT, topic="t.a", subscription="g", size=9, detail="held")]))
collector = FactCollector(FactReader(client, settings.HBUS_PREFIX))
collector.tick()
collector.tick()
booked = [LedgerMessage.objects.count(), LedgerEvent.objects.count(), Notice.objects.count()]
NOW = AT + 200_000
series = flow.series(AT, NOW, ["*"])
first = search.search(VIEWER, search.Query(correlation="c"), size=120)
rest = search.search(VIEWER, search.Query(correlation="c"), first.next_cursor, size=120)
LagSample.objects.create(at_ms=NOW, topic="t.a", subscription="g", waiting=3, in_flight=0, retrying=1)
for n in range(6):
    DeadLetter.objects.create(
        topic="t.a", subscription="g", message_id=f"m{n}", source="/s", position="1-0", body=b"", cause="X: ...",
        error="X: 1", fingerprint="f" if n < 4 else "e", attempts=1, first_failed_at=to_datetime(AT),
        died_at=to_datetime(NOW) - timedelta(seconds=n))
listing = groups.listing(VIEWER, groups.LetterFilters(), AT, NOW + 1000)
lag = flow.latest_lag(["*"], NOW)["t.a", "g"].unsettled
unsettled = [value for value in flow.lag_series(AT, NOW + 10_000, ["*"]).unsettled if value is not None]
LedgerRetention(50, clock=ManualClock(NOW + 3 * 86_400_000)).tick()
print(json.dumps({
    "booked": booked,
    "published": round(sum(series.published) * series.step_s),
    "settled_first": series.first_attempt,
    "lag": lag,
    "unsettled": unsettled,
    "pages": [len(first.messages), len(rest.messages), first.messages[0].message_id, rest.messages[-1].message_id],
    "groups": [[group.fingerprint, group.count, sum(group.arrivals)] for group in listing.groups],
    "kept": [LedgerMessage.objects.count(), LedgerEvent.objects.count(), FlowSample.objects.count()],
}))
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[RealPostgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="hbus-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = RealPostgres(Path(folder) / "server", binaries).start()
        yield server
        server.stop()


def test_the_ledger_is_the_same_on_postgresql(
    postgres: RealPostgres, tmp_path: Path, redis_url: str, prefix: str
) -> None:
    more = {"DATABASE_URL": postgres.url, "REDIS_URL": redis_url, "HBUS_PREFIX": prefix}
    installation = RunningInstallation(tmp_path / "state", more=more)
    migrated = installation.manage("migrate", "--verbosity=0")
    assert migrated.returncode == 0, migrated.stderr
    done = installation.manage("shell", "--no-imports", "-c", _PROBE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["booked"] == [200, 201, 1]
    assert (seen["published"], seen["settled_first"]) == (200, 1.0)
    assert (seen["lag"], seen["unsettled"]) == (4, [4])
    assert seen["pages"] == [120, 80, "m0199", "m0000"]
    assert seen["groups"] == [["f", 4, 4], ["e", 2, 2]]
    messages, events, samples = seen["kept"]
    assert messages == 50
    assert events <= 52
    # Two coarse spans for the topic and for its subscription, out of forty fine ones.
    assert samples == 4
