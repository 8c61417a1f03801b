from __future__ import annotations

from django.apps import AppConfig


class ToyConfig(AppConfig):
    name = "tests.toy"
    label = "toy"
