"""Hints that make a provider's own prompt cache work for clients that send none. No I/O.

They are put into what goes upstream, and only there: keys, stored entries and logs know the client's own bytes.
"""

from openclaw_cache.gateway.cache_hints.hints import hinted
from openclaw_cache.gateway.cache_hints.routing import MAX_KEY_CHARACTERS, RoutingKeys

__all__ = ["MAX_KEY_CHARACTERS", "RoutingKeys", "hinted"]
