"""What an agent's host asks of its memory: everything under `/v1/agents`."""
