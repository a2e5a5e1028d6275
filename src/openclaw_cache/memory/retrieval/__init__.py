"""Finding what an agent remembers: vectors, full text and time, fused, and shown to a model within bounds."""
