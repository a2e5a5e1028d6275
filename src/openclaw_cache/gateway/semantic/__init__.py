"""Between a miss of the exact cache and the upstream: the reply to a question that means the same."""
