from __future__ import annotations

from django.apps import AppConfig


class PublishingConfig(AppConfig):
    name = "hbus_console.publishing"
    label = "publishing"
