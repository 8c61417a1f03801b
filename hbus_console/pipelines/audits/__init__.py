"""Audits of the bus: asked for, kept, compared, and handed out signed."""
