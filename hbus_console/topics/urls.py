from __future__ import annotations

from django.urls import URLPattern, URLResolver

app_name = "topics"
urlpatterns: list[URLPattern | URLResolver] = []
