"""Looking back: what happened in a stretch of time, what it cost, and what would help."""
