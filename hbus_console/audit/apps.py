from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from hbus_console.access.refusals import refused


class AuditConfig(AppConfig):
    name = "hbus_console.audit"
    label = "audit"

    def ready(self) -> None:
        # Models can be imported only now.
        from hbus_console.audit.guards import after_migrate
        from hbus_console.audit.refusals import book_refusal

        post_migrate.connect(after_migrate, sender=self)
        refused.connect(book_refusal, dispatch_uid="audit")
