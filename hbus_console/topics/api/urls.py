"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.topics.api import topics

urlpatterns = [
    path("asyncapi", topics.AsyncApi.as_view(), name="asyncapi"),
    path("topics", topics.Topics.as_view(), name="topics"),
    path("topics/<str:topic>", topics.OneTopic.as_view(), name="topic"),
    path("topics/<str:topic>/delayed", topics.DelayedInTopic.as_view(), name="topic-delayed"),
    path("topics/<str:topic>/pause", topics.PauseTopic.as_view(), name="topic-pause"),
    path("topics/<str:topic>/resume", topics.ResumeTopic.as_view(), name="topic-resume"),
]
