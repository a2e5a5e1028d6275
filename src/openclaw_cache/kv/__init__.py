"""The prefix/KV cache: radix tree over token runs, block pool, tiers, codec."""
