"""How far `simulate` is off, and what it costs."""
