"""Look-ups, insertions and memory of the prefix indexes on traces of real prompts, beside those of other engines."""
