from __future__ import annotations

from django.urls import path

from hbus_console.messages import views

app_name = "messages"
# A message's id is whatever its producer chose, slashes included.
urlpatterns = [
    path("", views.messages, name="search"),
    path("reveal/<path:message_id>", views.reveal, name="reveal"),
    path("evidence/<path:message_id>", views.export, name="evidence"),
    path("<path:message_id>", views.message, name="message"),
]
