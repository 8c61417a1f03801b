from __future__ import annotations

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "hbus_console.api"
    label = "api"

    def ready(self) -> None:
        # Registers the authentication schemes with the generator of the OpenAPI document.
        from hbus_console.api import openapi  # noqa: F401
