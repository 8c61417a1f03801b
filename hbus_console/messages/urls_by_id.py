from __future__ import annotations

from django.urls import path

from hbus_console.messages import views

app_name = "message"
# Beside the addresses that have an id in their path: here ``?id=`` names it, so that no id can be one of these words.
urlpatterns = [
    path("", views.message, name="message"),
    path("reveal/", views.reveal, name="reveal"),
    path("evidence/", views.export, name="evidence"),
]
