"""Byte-level BPE of a GGUF file as a `tokenizers.Tokenizer`.

A GGUF file names how text is cut into words before the merges, but not the rules; they are stated here as the
models' own tokenizers have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openclaw_cache.engine.gguf_meta import GgufMeta

_QWEN2: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3: Final = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
_TEKKEN: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Chinese, Japanese and Korean, and the scripts between U+0800 and them.
_DEEPSEEK: Final = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")


@dataclass(frozen=True, slots=True)
class Words:
    """How a text is cut into words.

    `splits` are patterns that cut in turn; then `single_digits` cuts every digit off, and `like_gpt2` cuts by GPT-2's
    pattern. `is_composed`: the text is brought into the normal form C before. `keeps_tokens`: a word that is a
    token is that token, whatever the merges say. `begins_text`: a text begins with the token for that, where the
    file does not say.
    """

    splits: tuple[str, ...] = ()
    single_digits: bool = False
    like_gpt2: bool = False
    is_composed: bool = False
    keeps_tokens: bool = False
    begins_text: bool = False


_DIGITS_THEN_GPT2: Final = Words(single_digits=True, like_gpt2=True)
_LIKE_LLAMA3: Final = Words(splits=(_LLAMA3,), keeps_tokens=True, begins_text=True)

# Names: ggml-org/llama.cpp, src/llama-vocab.cpp. Rules: the `tokenizer.json` of the models, by
# transformers (Qwen2Converter, TikTokenConverter, MistralConverter) and llama.cpp, which quotes them.
WORDS: Final = {
    "smollm": _DIGITS_THEN_GPT2,
    "starcoder": _DIGITS_THEN_GPT2,
    "refact": _DIGITS_THEN_GPT2,  # Granite Code too
    "gpt-2": Words(like_gpt2=True),
    "qwen2": Words(splits=(_QWEN2,), is_composed=True),
    "llama-bpe": _LIKE_LLAMA3,
    "llama3": _LIKE_LLAMA3,
    "llama-v3": _LIKE_LLAMA3,
    "tekken": Words(splits=(_TEKKEN,), keeps_tokens=True, begins_text=True),  # Mistral Nemo
    "deepseek-coder": Words(splits=_DEEPSEEK, single_digits=True),
}
"""By the name in `tokenizer.ggml.pre`."""


def words_of(meta: GgufMeta) -> Words:
    """How the file's tokenizer cuts text into words.

    Raises:
        ConfigError: The file does not say, or names rules that are not known.
    """
    key = "tokenizer.ggml.pre"
    name = meta.text(key)
    if name not in WORDS:
        raise meta.unknown(key, WORDS)
    return WORDS[name]


def byte_level(meta: GgufMeta) -> Any:
    """The `tokenizers.Tokenizer` of a byte-level BPE, without special tokens.

    Raises:
        ConfigError: Words, merges or tokens are not such as are known.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: PLC0415 - [engine]

    words = words_of(meta)
    if meta.flag("tokenizer.ggml.add_space_prefix", default=False):
        raise meta.unknown("tokenizer.ggml.add_space_prefix", (False,))
    vocab = {token: i for i, token in enumerate(meta.texts("tokenizer.ggml.tokens"))}
    merges = []
    for merge in meta.texts("tokenizer.ggml.merges"):
        left, _, right = merge.partition(" ")
        if not {left, right, left + right} <= vocab.keys():
            raise meta.refusal(f"tokenizer.ggml.merges has {merge!r}, which does not make a token of two")
        merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=words.keeps_tokens))
    if words.is_composed:
        tokenizer.normalizer = normalizers.NFC()
    steps: list[Any] = [pre_tokenizers.Split(Regex(split), behavior="isolated") for split in words.splits]
    if words.single_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words.like_gpt2))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
