"""The one way to change topics: page, API, command and example all call these.

Every function asks :func:`~hbus_console.access.permissions.require`, writes its rows and their audit entry in one
transaction, and brings the store in line after the commit (the keeper does it again should that fail).
"""

from hbus_console.topics.lookup import topic
from hbus_console.topics.services.draft import TopicDraft
from hbus_console.topics.services.topics import change_topic, create_topic, delete_topic, pause_topic, resume_topic

__all__ = ["TopicDraft", "change_topic", "create_topic", "delete_topic", "pause_topic", "resume_topic", "topic"]
