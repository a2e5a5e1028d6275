"""The context engine's server side: what is recalled for a turn and stays with it, and the log of turns."""
