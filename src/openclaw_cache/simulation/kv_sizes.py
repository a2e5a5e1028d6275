"""How many bytes of KV a token has, in fp16, of models that many run.

2 (K and V) × layers × heads of K and V × dimension of a head × 2 bytes, from each model's config.json; of models with
latent attention the compressed vector that they keep.
"""

from __future__ import annotations

from typing import Final

ASSUMED: Final = 131_072
"""Of a model of 8 billion parameters with grouped heads (Llama 3.1 8B): where nobody says."""

KV_BYTES: Final = {
    "deepseek-v3": 61 * (512 + 64) * 2,
    "llama-3.1-8b": 2 * 32 * 8 * 128 * 2,
    "llama-3.3-70b": 2 * 80 * 8 * 128 * 2,
    "mistral-7b": 2 * 32 * 8 * 128 * 2,
    "qwen2.5-7b": 2 * 28 * 4 * 128 * 2,
    "qwen3-8b": 2 * 36 * 8 * 128 * 2,
    "qwen3-30b-a3b": 2 * 48 * 4 * 128 * 2,
    "qwen3-32b": 2 * 64 * 8 * 128 * 2,
}
