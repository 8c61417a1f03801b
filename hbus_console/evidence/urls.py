from __future__ import annotations

from django.urls import path

from hbus_console.evidence import views

app_name = "evidence"
urlpatterns = [path("", views.evidence, name="list")]
