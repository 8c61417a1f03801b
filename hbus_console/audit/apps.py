from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AuditConfig(AppConfig):
    name = "hbus_console.audit"
    label = "audit"

    def ready(self) -> None:
        from hbus_console.audit.guards import after_migrate

        post_migrate.connect(after_migrate, sender=self)
