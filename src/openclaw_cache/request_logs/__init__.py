"""Logs of requests in the forms that people have them in. What a file is, is told by its content, not by its name."""
