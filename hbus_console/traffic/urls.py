from __future__ import annotations

from django.urls import path

from hbus_console.traffic import views

app_name = "traffic"
urlpatterns = [
    path("charts/flow/", views.flow, name="flow-chart"),
    path("charts/lag/", views.lag, name="lag-chart"),
]
