"""``manage.py keeper``: the keeper role in the foreground."""

from __future__ import annotations

import signal
import threading
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand

from hbus_console.keeper.duties import all_duties
from hbus_console.keeper.keeper import Keeper

_log = structlog.get_logger(__name__)


class Command(BaseCommand):
    help = "Run the background duties until SIGTERM; several keepers share them by leases."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        told = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: told.set())
        keeper = Keeper(all_duties())
        keeper.start()
        _log.info("keeper started")
        told.wait()
        keeper.stop(settings.HBUS_GRACE_S)
        _log.info("keeper stopped")
