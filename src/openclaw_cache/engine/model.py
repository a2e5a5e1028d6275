"""The real model: loading, and our own decode loop over transformers on the CPU."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, Literal

# Waiting OpenMP threads spin by default, which on a shared machine costs others (and us) most of the time:
# 788 -> 126 ms per token was measured under load. It is read when torch loads its OpenMP runtime.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import jinja2
import torch
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils import logging as transformers_logging

from openclaw_cache.engine import convert, files
from openclaw_cache.engine.chat import Finished, Piece, Prefilled, TokenLogprob
from openclaw_cache.engine.text import TextStream
from openclaw_cache.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from openclaw_cache.engine.chat import Event, Message, Sampling
    from openclaw_cache.engine.source import ModelSource

_PREFILL_STEP = (
    128  # tokens per forward pass: a cancelled request stops after at most one (about 0.4 s, 2 cores)
)


class TransformersModel:
    """A causal language model in fp32 on the CPU, with its tokenizer and chat template.

    Greedy and seeded replies are the same from run to run with the same number of threads.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        transformers_logging.disable_progress_bar()
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
            ).eval()
        except (OSError, ValueError, KeyError, RuntimeError) as exc:
            raise ConfigError(f"cannot load the model in {folder}: {exc}") from exc
        if not self._tokenizer.chat_template:
            raise ConfigError(f"the model in {folder} has no chat template, so it cannot answer chats")
        self.window = int(self._model.config.max_position_embeddings)
        self._codec: Any = self._tokenizer.backend_tokenizer
        self._ends = _end_tokens(self._model, self._tokenizer)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """See `ChatModel.encode`."""
        rows = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text = self._tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)
        except jinja2.TemplateError as exc:
            raise RequestError(
                400, f"the model's chat template refuses the messages: {exc}", param="messages"
            ) from exc
        # Not through the transformers tokenizer: it sets state on the shared object at every call.
        ids: list[int] = self._codec.encode(text, add_special_tokens=False).ids
        return ids

    def generate(self, prompt: Sequence[int], sampling: Sampling) -> Generator[Event]:
        """See `ChatModel.generate`. The prompt is computed once for all choices."""
        cache = DynamicCache(config=self._model.config)
        for start in range(0, len(prompt), _PREFILL_STEP):
            step = prompt[start : start + _PREFILL_STEP]
            first_logits = self._forward(step, cache)
            yield Prefilled(start + len(step))
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        for index in range(sampling.n):
            yield from self._choice(index, first_logits, cache, sampling, seed + index)
            cache.crop(len(prompt) - cache.get_seq_length())  # a negative number is how many to drop

    def _choice(
        self, index: int, logits: torch.Tensor, cache: Any, sampling: Sampling, seed: int
    ) -> Generator[Event]:
        stream = DecodeStream(skip_special_tokens=True)
        text = TextStream(lambda token: stream.step(self._codec, token), sampling.stop)
        draw = torch.Generator().manual_seed(seed % 2**64)
        reason: Literal["stop", "length"] = "length"
        num_tokens = 0
        while True:
            token = _pick(logits, sampling, draw)
            if token in self._ends:
                reason = "stop"
                break
            num_tokens += 1
            yield Piece(index, *text.add(token, self._logprob(logits, token, sampling.top_logprobs)))
            if text.stopped:
                reason = "stop"
                break
            if num_tokens == sampling.max_tokens:
                break
            logits = self._forward([token], cache)
        yield Piece(index, *text.flush())
        yield Finished(index, reason, num_tokens)

    @torch.inference_mode()
    def _forward(self, tokens: Sequence[int], cache: Any) -> torch.Tensor:
        """Add tokens to the cache and return the logits after the last one."""
        output = self._model(input_ids=torch.tensor([tokens]), cache=cache, use_cache=True, logits_to_keep=1)
        logits: torch.Tensor = output.logits[0, -1]
        return logits

    def _logprob(self, logits: torch.Tensor, token: int, num_top: int | None) -> TokenLogprob | None:
        """Log probabilities of the model itself, before temperature and top_p."""
        if num_top is None:
            return None
        logprobs = torch.log_softmax(logits, -1)
        top = torch.topk(logprobs, num_top)
        likeliest = tuple(
            TokenLogprob(self._token_text(other), value)
            for other, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        )
        return TokenLogprob(self._token_text(token), float(logprobs[token]), likeliest)

    def _token_text(self, token: int) -> str:
        text: str = self._codec.decode([token], skip_special_tokens=False)
        return text


def load(
    source: ModelSource, data_dir: Path, num_threads: int, say: Callable[[str], None]
) -> TransformersModel:
    """Convert if needed, check and load a model. Slow: 3 s warm, 10 s the first time.

    Sets the number of torch's threads for the whole process.

    Raises:
        ConfigError: The files are not usable; the message says why.
    """
    torch.set_num_threads(num_threads)
    if source.path.is_dir():
        folder, fingerprint = source.path, files.folder_fingerprint(source.path)
    else:
        folder, fingerprint = convert.converted(source.path, source.model_id, data_dir / "models", say)
    say(f"loading {source.model_id}")
    return TransformersModel(folder, fingerprint)


def _pick(logits: torch.Tensor, sampling: Sampling, draw: torch.Generator) -> int:
    """Choose the next token: greedy, or from the nucleus (Holtzman et al., 2020, arXiv:1904.09751)."""
    if sampling.temperature == 0 or sampling.top_p == 0:
        return int(logits.argmax())
    weights = torch.softmax(logits / sampling.temperature, -1)
    if sampling.top_p < 1:
        ordered, order = weights.sort(descending=True)
        before = ordered.cumsum(-1) - ordered  # how much mass comes before each token: 0 for the likeliest
        ordered[before >= sampling.top_p] = 0
        return int(order[torch.multinomial(ordered, 1, generator=draw)])
    return int(torch.multinomial(weights, 1, generator=draw))


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Token ids that end a reply, from every place where models declare them."""
    declared = (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id)
    ends: set[int] = set()
    for value in declared:
        ends.update(value if isinstance(value, list) else () if value is None else (value,))
    return frozenset(ends)
