"""What a KV cache of another size, policy or tier would have done with the requests of a trace."""
