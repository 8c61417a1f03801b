from __future__ import annotations

from django.urls import path

from hbus_console.replays import views

app_name = "replays"
urlpatterns = [
    path("<str:topic>/", views.form, name="form"),
    path("<str:topic>/test/", views.test, name="test"),
]
