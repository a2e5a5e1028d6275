"""openclaw-cache: a cache between agents and models. Every token is computed once."""

__version__ = "0.1.0"
