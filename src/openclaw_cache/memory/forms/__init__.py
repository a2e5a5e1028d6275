"""Memories and turns as lines to export and import, and what other programs keep them in. Pure."""
