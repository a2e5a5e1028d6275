"""What a request costs: our gateway against bare servers and LiteLLM's proxy, on one machine in one run."""
