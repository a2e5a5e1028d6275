"""The forms of traces that are read."""
