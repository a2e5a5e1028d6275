"""The tokenizer of a GGUF file, with its special tokens and chat template, as files of a Hugging Face folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.engine.gguf_bpe import byte_level, words_of
from openclaw_cache.engine.gguf_sentencepiece import CONTROL, USER, sentencepiece

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_cache.engine.gguf_meta import GgufMeta
    from openclaw_cache.types import Json

# A model may close a text with the end of its training documents, or wait for a tool, as well as end its turn.
_ENDS: Final = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<｜end▁of▁sentence｜>", "<|eom_id|>")
# These end a turn, if the chat template says so.
_TURN_ENDS: Final = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|end_of_turn|>", "<end_of_turn>")

_KINDS: Final = ("gpt2", "llama")

# Beginnings of keys of tokenizers that change the text, and of models that must not say some tokens.
_FOREIGN: Final = ("normalizer", "precompiled_charsmap", "suppress_tokens")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens that are no text, and what is put around a text.

    `ends` are all that end a reply, in order; `control` are all that are found in a text before it is cut, and not
    shown in replies.
    """

    bos: int | None
    eos: int
    unknown: int | None
    ends: tuple[int, ...]
    control: frozenset[int]
    adds_bos: bool
    adds_eos: bool


def special_tokens(meta: GgufMeta) -> SpecialTokens:
    """What the file says of its special tokens, with the format's defaults where it says nothing.

    Raises:
        ConfigError: The tokenizer is of a kind that is not known, or its tokens contradict each other.
    """
    tokens = meta.texts("tokenizer.ggml.tokens")
    types = meta.wholes("tokenizer.ggml.token_type")
    id_of = {token: i for i, token in enumerate(tokens)}
    if len(types) != len(tokens) or len(id_of) != len(tokens):
        raise meta.refusal("its tokens are not one of each, each with a type")
    is_sentencepiece = meta.text("tokenizer.ggml.model") == "llama"
    if not is_sentencepiece and meta.text("tokenizer.ggml.model") != "gpt2":
        raise meta.unknown("tokenizer.ggml.model", _KINDS)
    defaults = {"bos": 1, "eos": 2, "unknown": 0} if is_sentencepiece else {}
    named: dict[str, int] = {}
    for name in ("bos", "eos", "eot", "eom", *(["unknown"] if is_sentencepiece else [])):
        key = f"tokenizer.ggml.{name}_token_id"
        if meta.has(key) or name in defaults:
            named[name] = meta.whole(key, defaults.get(name))
            if not 0 <= named[name] < len(tokens):
                raise meta.refusal(f"{key} is {named[name]}, but there are {len(tokens)} tokens")
    eos = named["eos"] if "eos" in named else meta.whole("tokenizer.ggml.eos_token_id")
    template = _chat_template(meta)
    turn_ends = {id_of[mark] for mark in _TURN_ENDS if mark in id_of and mark in template}
    text_ends = {id_of[mark] for mark in _ENDS if mark in id_of and types[id_of[mark]] == CONTROL}
    ends = turn_ends | text_ends | {named[name] for name in ("eos", "eot", "eom") if name in named}
    control = {i for i, kind in enumerate(types) if kind == CONTROL} | turn_ends | set(named.values())
    adds_bos = meta.flag(
        "tokenizer.ggml.add_bos_token", default=is_sentencepiece or words_of(meta).begins_text
    )
    if adds_bos and "bos" not in named:
        raise meta.refusal("a text begins with a token of which there is no id, tokenizer.ggml.bos_token_id")
    return SpecialTokens(
        bos=named.get("bos"),
        eos=eos,
        unknown=named.get("unknown"),
        ends=tuple(sorted(ends)),
        control=frozenset(control),
        adds_bos=adds_bos,
        adds_eos=meta.flag("tokenizer.ggml.add_eos_token", default=False),
    )


def write_tokenizer(meta: GgufMeta, special: SpecialTokens, folder: Path) -> None:
    """Write tokenizer.json, its configuration, the chat template, and which tokens end a reply.

    Raises:
        ConfigError: The tokenizer is not such as is known.
    """
    tokens = meta.texts("tokenizer.ggml.tokens")
    names = {"bos_token": special.bos, "eos_token": special.eos, "unk_token": special.unknown}
    documents: dict[str, Json] = {
        "generation_config.json": {"eos_token_id": list(special.ends)},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{name: tokens[i] for name, i in names.items() if i is not None},
        },
    }
    for file, document in documents.items():
        (folder / file).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(_chat_template(meta), encoding="utf-8")
    build_tokenizer(meta, special).save(str(folder / "tokenizer.json"))


def build_tokenizer(meta: GgufMeta, special: SpecialTokens) -> Any:
    """The `tokenizers.Tokenizer` of the file.

    Raises:
        ConfigError: It is not such as is known.
    """
    from tokenizers import AddedToken  # noqa: PLC0415 - part of the [engine] extra

    for key in _FOREIGN:
        for found in meta.keys(f"tokenizer.ggml.{key}"):
            raise meta.refusal(f"{found} is not known")
    tokens = meta.texts("tokenizer.ggml.tokens")
    types = meta.wholes("tokenizer.ggml.token_type")
    tokenizer = byte_level(meta) if special.unknown is None else sentencepiece(meta, special.unknown)
    added = [AddedToken(token, normalized=False) for token in tokens]
    tokenizer.add_special_tokens([added[i] for i in sorted(special.control)])
    tokenizer.add_tokens(
        [added[i] for i, kind in enumerate(types) if kind == USER and i not in special.control]
    )
    _frame(tokenizer, special, tokens)
    return tokenizer


def _frame(tokenizer: Any, special: SpecialTokens, tokens: list[str]) -> None:
    """Put the tokens around a text that the file asks for; chats have them in their template."""
    from tokenizers import processors  # noqa: PLC0415 - part of the [engine] extra

    bos = special.bos if special.adds_bos else None
    eos = special.eos if special.adds_eos else None
    around = {tokens[i]: i for i in (bos, eos) if i is not None}
    if around:
        before = [] if bos is None else [tokens[bos]]
        after = [] if eos is None else [tokens[eos]]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], special_tokens=list(around.items())
        )


def _chat_template(meta: GgufMeta) -> str:
    if not meta.has("tokenizer.chat_template"):
        raise meta.refusal("it has no chat template (tokenizer.chat_template)")
    return meta.text("tokenizer.chat_template")
