"""What every operation has in common in the OpenAPI document; the two ways to sign in are found when it is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_lib_doc_excludes

from hbus_console.access.problem_details import CONTENT_TYPE
from hbus_console.api.problems import IF_MATCH, PROBLEM

_PROBLEM = {"$ref": "#/components/responses/Problem"}
#: What any operation may be refused with.
_ALWAYS = ("401", "403", "406", "422", "429", "503")
#: What one that changes something may.
_CHANGES = ("409", "413", "415", "504")
_METHODS = {"get", "post", "put", "patch", "delete"}


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "hbus_console.accounts.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API token, made under Access."}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "hbus_console.accounts.authentication.ConsoleSessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "The console's own session; changes also need its CSRF token.",
        }


class ToldWhole(AutoSchema):
    """Tells the body of a DELETE too, which OpenAPI 3.1 permits, and that a body with a field that is needed is needed.

    Where no field is needed, an empty body is as good as ``{}``.
    """

    def _get_request_body(self, direction: str = "request") -> dict[str, Any] | None:
        method = self.method
        self.method = "POST" if method == "DELETE" else method
        try:
            told: dict[str, Any] | None = super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        finally:
            self.method = method
        if told is not None and all(form["schema"].get("required") for form in told["content"].values()):
            told["required"] = True
        return told


def refusals(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Name for each operation what it may be refused with, and describe a refusal once. A hook of drf-spectacular."""
    for path, methods in result["paths"].items():
        for method in _METHODS & methods.keys():
            operation = methods[method]
            for code in _codes(path, method, operation.get("parameters", ())):
                operation["responses"].setdefault(code, _PROBLEM)
            for code, answer in operation["responses"].items():
                if CONTENT_TYPE in answer.get("content", ()):
                    operation["responses"][code] = _PROBLEM
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components.setdefault("responses", {})["Problem"] = {
        "description": PROBLEM["description"],
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    return result


def _codes(path: str, method: str, parameters: Iterable[Mapping[str, Any]]) -> list[str]:
    names = {each["name"] for each in parameters}
    missing = ["404"] if "{" in path else []
    changes = list(_CHANGES) if method != "get" else []
    return [*_ALWAYS, *missing, *changes, *(["412"] if IF_MATCH in names else [])]


def undescribing() -> list[type[Any]]:
    """Classes whose docstrings describe no endpoint: what endpoints are made of."""
    # Not at the top: the settings name this module before there are endpoints.
    from hbus_console.api.views import ApiView

    return [*get_lib_doc_excludes(), *_bases(ApiView)]  # type: ignore[no-untyped-call]


def _bases(kind: type[Any]) -> Iterator[type[Any]]:
    made = kind.__subclasses__()
    if made:
        yield kind
    for each in made:
        yield from _bases(each)
