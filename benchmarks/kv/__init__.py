"""What the prefix/KV cache saves and costs: the engine in this process, with the real model, against its floors."""
