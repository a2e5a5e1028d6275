"""Read a text completion request: only what the gateway decides by; the upstream validates."""

from __future__ import annotations

from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json


def parse(body: Json) -> Request:
    """Read a decoded body. A few µs, whatever the prompt's size.

    The prompt is text, tokens, or an array of several of either; null is OpenAI's empty document. Where several
    candidates are computed (`best_of`) the request wants samples as with `n`, though it gets fewer of them.

    Raises:
        RequestError: 400, with `param`, for what we cannot go on without: model, prompt, stream.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    get = body.get
    model = get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model: a non-empty string.", param="model")
    prompt = get("prompt")
    if "prompt" not in body or not isinstance(prompt, str | list | None):
        raise RequestError(400, "You must provide a prompt: a string or an array.", param="prompt")
    stream = get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise RequestError(400, "stream must be true, false or null.", param="stream")
    options, best_of = get("stream_options"), get("best_of")
    return Request(
        model=model,
        stream=stream is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        n=get("n") if best_of in (None, 1) else best_of,
        temperature=get("temperature"),
        seed=get("seed"),
        limit=get("max_tokens"),
        num_messages=len(prompt) if isinstance(prompt, list) and not _is_tokens(prompt) else 1,
    )


def _is_tokens(prompt: list[Json]) -> bool:
    """Whether a prompt is one array of tokens, and not an array of prompts."""
    return bool(prompt) and isinstance(prompt[0], int)


def messages(body: dict[str, Json]) -> list[Json]:
    """Return every prompt that is text as a user message."""
    return [{"role": "user", "content": text} for text in _texts(body)]


def prompt_text(body: dict[str, Json]) -> str:
    """Return all text of the prompts, and what is to follow the completion, joined by LF. Tokens are no text."""
    suffix = body.get("suffix")
    return "\n".join([*_texts(body), suffix] if isinstance(suffix, str) else _texts(body))


def _texts(body: dict[str, Json]) -> list[str]:
    prompt = body["prompt"]
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or _is_tokens(prompt):
        return []
    return [text for text in prompt if isinstance(text, str)]
