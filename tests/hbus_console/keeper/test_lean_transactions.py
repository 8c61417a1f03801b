"""What a keeper loads it loads before it holds the database's write lock, for which every other process waits."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from django.urls import reverse

from hbus_console.alerts import paths
from hbus_console.state import ROOT

# A process of its own: this one has loaded everything.
_CODE = """
import json, sys
import django
django.setup()
from django.core.management import call_command
from django.db import connections
call_command("migrate", verbosity=0)
call_command("migrate", database="ledger", verbosity=0)
from engine.bus.facts import BusFields
from engine.bus.subjects import subscription_subject
from engine.core.clock import ManualClock, SystemClock
from engine.core.facts import FactBatch
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.keeper.duties import all_duties
from hbus_console.wiring import fact_log
from tests.hbus_console.alerts.conftest import Watch, rule, webhook
from tests.hbus_console.ui.conftest import subscription, topic

duties = all_duties()
subscription(topic("booking.created"), "billing")
rule(threshold=100).channels.add(webhook())
loaded = {}

class Observer:
    def find_spec(self, name, path=None, target=None):
        inside = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
        if inside:
            loaded[name] = inside
        return None

sys.meta_path.insert(0, Observer())
watch = Watch(ManualClock())
states = [watch.go(0, rounds=8), watch.go(500), watch.go(0)]
facts = fact_log.emitter()
fields = BusFields(error="away")
facts.emit([FactBatch("store_lost", SystemClock().now_ms(), subscription_subject("booking.created", "billing"), "n",
                      fields=fields)])
facts.close(5)
from hbus_console.alerts.models import Notification
urls = [row.body["alerts"][0]["url"] for row in Notification.objects.order_by("pk")]
for duty in duties:
    if duty.name != "alert-notifications":
        duty.tick()
print(json.dumps({"loaded": loaded, "states": states, "urls": urls, "pages": "hbus_console.urls" in sys.modules}))
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_first_alert_and_every_duty_load_nothing_inside_a_transaction(seen: dict[str, object]) -> None:
    assert seen["states"] == [[], ["firing"], ["resolved"]]
    assert len(seen["urls"]) == 2, "told of its beginning, and of its end"  # type: ignore[arg-type]
    assert seen["loaded"] == {}


def test_whoever_tells_of_alerts_loads_no_page(seen: dict[str, object]) -> None:
    assert not seen["pages"]


def test_the_paths_of_alerts_are_the_addresses_of_their_pages() -> None:
    assert reverse("alerts:list") == paths.ALERTS
    assert reverse("alerts:alert", args=[7]) == paths.alert(7)
    assert reverse("alerts:channel", args=[7]) == paths.channel(7)
