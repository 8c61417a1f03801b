"""Template tags and filters every page may use without loading."""

from __future__ import annotations

from django import template

register = template.Library()
