"""Connecting other programs to this gateway: what to change in their settings, and how to take it back."""
