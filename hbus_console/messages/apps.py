from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class MessagesConfig(AppConfig):
    name = "hbus_console.messages"
    label = "ledger"

    def ready(self) -> None:
        # Models can be imported only now.
        from hbus_console.messages.releases import after_migrate

        post_migrate.connect(after_migrate, sender=self)
