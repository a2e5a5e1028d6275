"""What the rules know of words: their spelling, their forms, what they mean, and how numbers are written."""
