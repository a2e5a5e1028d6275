"""What of a conversation is worth remembering, found by rules without a model. Pure."""
