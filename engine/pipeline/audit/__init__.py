"""The audit: what was published, stored, delivered and archived, compared message by message. Needs numpy."""
