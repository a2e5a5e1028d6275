"""A stored reply for a question that asks the same in other words, and proof that it may be used."""
