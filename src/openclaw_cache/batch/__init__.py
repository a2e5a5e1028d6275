"""Many requests that can wait, sent in the order in which they share most."""
