"""Agent memory: one isolated store per agent, hybrid retrieval, and the context engine behind OpenClaw's plugin."""
