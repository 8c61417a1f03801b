from __future__ import annotations

from django.urls import path

from hbus_console.topics.views import lists, topic, topic_forms

app_name = "topics"
urlpatterns = [
    path("topics/", lists.topics, name="list"),
    path("topics/<str:name>/", topic.detail, name="detail"),
    path("topics/<str:name>/settings/", topic_forms.settings, name="settings"),
    path("topics/<str:name>/connect/", topic.connect, name="connect"),
    path("topics/<str:name>/audit/", topic.trail, name="trail"),
    path("topics/<str:name>/pause/", topic.pause, name="pause"),
    path("topics/<str:name>/resume/", topic.resume, name="resume"),
    path("topics/<str:name>/delete/", topic.delete, name="delete"),
    # Outside topics/, where every name belongs to a topic.
    path("new-topic/", topic_forms.new, name="new"),
]
