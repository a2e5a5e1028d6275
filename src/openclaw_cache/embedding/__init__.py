"""Texts as vectors: local models in a process of their own, or an endpoint that speaks OpenAI's API."""
