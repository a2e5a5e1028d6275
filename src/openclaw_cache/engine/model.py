"""A model on disk made ready to use: weights on a device, tokenizer, chat template."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# Waiting OpenMP threads spin by default, which on a shared machine costs others (and us) most of the time:
# 788 -> 126 ms per token was measured under load. It is read when torch loads its OpenMP runtime.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import jinja2
import torch
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from openclaw_cache.engine import convert, files
from openclaw_cache.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from openclaw_cache.engine.chat import Message
    from openclaw_cache.engine.source import ModelSource
    from openclaw_cache.types import Json


class LanguageModel:
    """A causal language model with its tokenizer and chat template.

    On the CPU it computes in fp32 (bf16 is slower there), elsewhere in the dtype of its weights.
    """

    def __init__(self, folder: Path, fingerprint: str, device: torch.device) -> None:
        self.fingerprint = fingerprint
        self.device = device
        transformers_logging.disable_progress_bar()
        dtype: torch.dtype | str = torch.float32 if device.type == "cpu" else "auto"
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            network, loaded = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
            self.network: Any = network.eval().to(device)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as exc:
            raise ConfigError(f"cannot load the model in {folder}: {exc}") from exc
        if loaded["missing_keys"]:  # transformers makes up weights for them
            raise ConfigError(f"the model in {folder} has no weights for {min(loaded['missing_keys'])}")
        if not self._tokenizer.chat_template:
            raise ConfigError(f"the model in {folder} has no chat template, so it cannot answer chats")
        self.window = int(self.network.config.max_position_embeddings)
        self.ends = _end_tokens(self.network, self._tokenizer)
        # A tokenizer that is written in Python has none, and threads may not share it.
        self._codec: Any = getattr(self._tokenizer, "backend_tokenizer", None)
        if self._codec is None:
            raise ConfigError(
                f"the tokenizer of the model in {folder}, {type(self._tokenizer).__name__}, is not one of the "
                "tokenizers library: save it as tokenizer.json (transformers: `save_pretrained` of its fast form)"
            )

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        dtype: torch.dtype = self.network.dtype
        return dtype

    def encode(
        self, messages: Sequence[Message], tools: Json = None, *, add_generation_prompt: bool = True
    ) -> list[int]:
        """See `ChatEngine.encode`. Tools appear in the prompt if the model's template knows them."""
        rows = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text = self._tokenizer.apply_chat_template(
                rows, tools=tools or None, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except (jinja2.TemplateError, TypeError, ValueError) as exc:
            raise RequestError(
                400, f"the model's chat template refuses the messages: {exc}", param="messages"
            ) from exc
        return self.encode_text(text)

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text, without anything added to it. Thread-safe."""
        # Not through the transformers tokenizer: it sets state on the shared object at every call.
        ids: list[int] = self._codec.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens, control tokens included."""
        text: str = self._codec.decode(list(tokens), skip_special_tokens=False)
        return text

    def decode_steps(self) -> Callable[[int], str | None]:
        """A decoder that takes one token at a time and returns the text that it completes."""
        stream = DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self._codec, token)


def load(
    source: ModelSource, data_dir: Path, num_threads: int, say: Callable[[str], None], device: str = "cpu"
) -> LanguageModel:
    """Convert if needed, check and load a model. Slow: 3 s warm, 10 s the first time.

    Sets the number of torch's threads for the whole process.

    Raises:
        ConfigError: The files are not usable, or the device is not there; the message says why.
    """
    torch.set_num_threads(num_threads)
    chosen = choose_device(device)
    if source.path.is_dir():
        folder, fingerprint = source.path, files.folder_fingerprint(source.path)
    else:
        folder, fingerprint = convert.converted(source.path, source.model_id, data_dir / "models", say)
    say(f"loading {source.model_id}")
    return LanguageModel(folder, fingerprint, chosen)


def choose_device(name: str) -> torch.device:
    """The device of a setting `auto | cpu | cuda | mps`; auto takes the fastest that is there.

    Raises:
        ConfigError: It is not there.
    """
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, is_there in has.items() if is_there)
    if not has.get(name, False):
        raise ConfigError(
            f"device: {name} is not available here; there is {', '.join(k for k in has if has[k])}"
        )
    return torch.device(name)


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Token ids that end a reply, from every place where models declare them."""
    declared = (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id)
    ends: set[int] = set()
    for value in declared:
        ends.update(value if isinstance(value, list) else () if value is None else (value,))
    return frozenset(ends)
