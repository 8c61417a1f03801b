from __future__ import annotations

from django.apps import AppConfig


class MessagesConfig(AppConfig):
    name = "hbus_console.messages"
    label = "ledger"
