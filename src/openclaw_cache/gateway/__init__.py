"""The one order of steps between a request and its reply."""
