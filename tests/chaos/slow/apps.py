from __future__ import annotations

from django.apps import AppConfig


class SlowConfig(AppConfig):
    """An app with one slow handler, installed by ``HBUS_APPS`` into workers under test."""

    name = "tests.chaos.slow"
    label = "slow"
