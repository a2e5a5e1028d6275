"""SentencePiece BPE with byte fallback of a GGUF file as a `tokenizers.Tokenizer`: Llama 1 and 2, Mistral.

The method: Kudo and Richardson, 2018, arXiv:1808.06226. Instead of merges a file has a score for each piece: of all
neighbours the pair whose piece has the highest score is merged first. The merges that this amounts to are those of
the models' own `tokenizer.json`, which transformers makes in the same way (`LlamaConverter`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openclaw_cache.engine.gguf_meta import GgufMeta

NORMAL, CONTROL, USER, BYTE = 1, 3, 4, 6  # token types of the GGUF specification

_SPACE: Final = "▁"


def sentencepiece(meta: GgufMeta, unknown: int) -> Any:
    """The `tokenizers.Tokenizer` of a SentencePiece BPE, without special tokens.

    A text, and what follows a special token, begins with a space. Where `[INST]` is a token of its own (Mistral's
    tokenizer from version 2 on), only the beginning of the text does: mistralai/mistral-common, issue 3.

    Args:
        meta: The file's metadata.
        unknown: Id of the token for what is not known.

    Raises:
        ConfigError: Tokens or settings are not such as are known.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: PLC0415 - [engine] extra

    if meta.flag("tokenizer.ggml.remove_extra_whitespaces", default=False):
        raise meta.unknown("tokenizer.ggml.remove_extra_whitespaces", (False,))
    tokens = meta.texts("tokenizer.ggml.tokens")
    types = meta.wholes("tokenizer.ggml.token_type")
    kinds = dict(zip(tokens, types, strict=True))
    if any(kinds.get(f"<0x{byte:02X}>") != BYTE for byte in range(256)):
        raise meta.refusal("its tokenizer has no token for each byte")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=_merges(meta, tokens, types),
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    has_prefix = meta.flag("tokenizer.ggml.add_space_prefix", default=True)
    if has_prefix and kinds.get("[INST]") == CONTROL:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="first", split=False)
    else:
        prefix = [normalizers.Prepend(_SPACE)] if has_prefix else []
        tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", _SPACE)])
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if has_prefix:
        steps.append(decoders.Strip(" ", left=1))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _merges(meta: GgufMeta, tokens: list[str], types: list[int]) -> list[tuple[str, str]]:
    """All ways to make a normal piece of two others, the highest score first."""
    scores = meta.numbers("tokenizer.ggml.scores")
    if len(scores) != len(tokens):
        raise meta.refusal("tokenizer.ggml.scores has not one score for each token")
    score_of = {
        token: score for token, kind, score in zip(tokens, types, scores, strict=True) if kind == NORMAL
    }
    if len(set(score_of.values())) == 1 < len(score_of):
        raise meta.refusal("tokenizer.ggml.scores are all equal, so they do not tell the order of merges")
    ranked = []
    for token, score in score_of.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in score_of and right in score_of:
                ranked.append((-score, -len(left), -len(right), left, right))
    ranked.sort(key=lambda merge: merge[:3])
    return [(left, right) for *_, left, right in ranked]
