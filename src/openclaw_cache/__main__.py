"""`python -m openclaw_cache` is the command `openclaw-cache`."""

from openclaw_cache.cli import main

main()
