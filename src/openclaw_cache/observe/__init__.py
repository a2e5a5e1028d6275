"""Metrics and logs. Never prompt or reply text."""
