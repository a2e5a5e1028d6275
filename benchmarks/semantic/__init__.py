"""How well the semantic cache tells questions of one answer from traps, against others on the same pairs."""
