"""Refusals that any app's services may raise; the API, the pages and the CLI each know how to say them."""

from engine.core.errors import Conflict, NotThere

__all__ = ["Conflict", "NotThere"]
