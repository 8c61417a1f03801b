from __future__ import annotations

from django.urls import path

from hbus_console.teams import views

app_name = "teams"
urlpatterns = [path("teams/", views.teams, name="list")]
