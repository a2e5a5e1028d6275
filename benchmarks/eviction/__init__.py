"""Hit ratio and cost of the KV cache's eviction policies on traces of real agents."""
