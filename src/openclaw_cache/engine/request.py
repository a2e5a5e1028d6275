"""Parse and check the body of `POST /v1/chat/completions`. Pure.

What this engine cannot honour is refused with the parameter's name, never ignored; fields that no rule here
names are ignored, as other OpenAI-compatible servers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import orjson

from openclaw_cache.engine.chat import TOOL_CALL, Message, Sampling
from openclaw_cache.errors import RequestError

if TYPE_CHECKING:
    from openclaw_cache.types import Json

_ROLES = {
    "system": "system",
    "developer": "system",  # OpenAI's newer name for the same thing
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # the deprecated name
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. `max_tokens` None: whatever the window leaves."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int | None
    temperature: float
    top_p: float
    seed: int | None
    n: int
    stop: tuple[str, ...]
    top_logprobs: int | None
    stream: bool
    include_usage: bool
    tools: Json = None

    def sampling(self, num_prompt_tokens: int, window: int) -> Sampling:
        """Fit the request into the model's window.

        Raises:
            RequestError: 400 `context_length_exceeded`: no room for the prompt and what was asked for.
        """
        room = window - num_prompt_tokens
        wanted = self.max_tokens or 1
        if wanted > room:
            asked = f" and {self.max_tokens} were asked for the completion" if self.max_tokens else ""
            raise RequestError(
                400,
                f"This model's maximum context length is {window} tokens. However, your messages resulted in "
                f"{num_prompt_tokens} tokens{asked}. Please shorten the messages or the completion.",
                code="context_length_exceeded",
                param="messages",
            )
        return Sampling(
            max_tokens=self.max_tokens or room,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            n=self.n,
            stop=self.stop,
            top_logprobs=self.top_logprobs,
        )


def parse(body: bytes) -> ChatRequest:
    """Decode and check a request body.

    A temperature that is not given counts as 0: the likeliest answer, the same one every time.

    Raises:
        RequestError: 400 naming the parameter.
    """
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise RequestError(400, f"the request body is not JSON: {exc}") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the request body must be a JSON object")
    _refuse_unsupported(fields)
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        _refuse("model", "must be the name of a model")
    max_tokens = _integer(fields, "max_completion_tokens", 1, 2**31) or _integer(
        fields, "max_tokens", 1, 2**31
    )
    temperature = _number(fields, "temperature", 0, 2)
    top_p = _number(fields, "top_p", 0, 1)
    options = fields.get("stream_options") or {}
    if not isinstance(options, dict):
        _refuse("stream_options", "must be an object")
    return ChatRequest(
        model=model,
        messages=parse_messages(fields.get("messages")),
        max_tokens=max_tokens,
        temperature=0.0 if temperature is None else temperature,
        top_p=1.0 if top_p is None else top_p,
        seed=_integer(fields, "seed", -(2**63), 2**63 - 1),
        n=_integer(fields, "n", 1, 128) or 1,
        stop=_stop(fields.get("stop")),
        top_logprobs=_top_logprobs(fields),
        stream=_flag(fields, "stream"),
        include_usage=_flag(options, "include_usage", "stream_options.include_usage"),
        tools=parse_tools(fields.get("tools")),
    )


def _refuse(param: str, problem: str) -> NoReturn:
    raise RequestError(400, f"'{param}' {problem}", param=param, code="invalid_value")


def _refuse_unsupported(fields: dict[str, Json]) -> None:
    """Refuse what would silently change the answer's meaning if it were ignored."""
    for param in ("frequency_penalty", "presence_penalty"):
        if fields.get(param) not in (None, 0):
            _unsupported(param)
    for param in ("logit_bias", "audio", "prediction", "web_search_options"):
        if fields.get(param) not in (None, {}):
            _unsupported(param)
    if fields.get("modalities") not in (None, ["text"]):
        _unsupported("modalities")
    # With "auto" or "none" a model may answer in text, and this one always does.
    for param in ("tool_choice", "function_call"):
        if fields.get(param) not in (None, "auto", "none"):
            _unsupported(param)
    kind = fields.get("response_format")
    if kind is not None and (not isinstance(kind, dict) or kind.get("type") != "text"):
        _unsupported("response_format")


def _unsupported(param: str) -> NoReturn:
    raise RequestError(
        400,
        f"'{param}' is not supported by the embedded engine; leave it out or use another upstream",
        param=param,
        code="unsupported_parameter",
    )


def _number(fields: dict[str, Json], param: str, low: float, high: float) -> float | None:
    value = fields.get(param)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        _refuse(param, f"must be a number from {low} to {high}")
    return float(value)


def _integer(fields: dict[str, Json], param: str, low: int, high: int) -> int | None:
    value = fields.get(param)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        _refuse(param, f"must be an integer from {low} to {high}")
    return value


def _flag(fields: dict[str, Json], param: str, shown: str | None = None) -> bool:
    value = fields.get(param)
    if value is not None and not isinstance(value, bool):
        _refuse(shown or param, "must be true or false")
    return bool(value)


def _top_logprobs(fields: dict[str, Json]) -> int | None:
    top = _integer(fields, "top_logprobs", 0, 20)
    if _flag(fields, "logprobs"):
        return top or 0
    if top:
        _refuse("top_logprobs", "needs 'logprobs' to be true")
    return None


def _stop(value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(s, str) and s for s in stops):
        _refuse("stop", "must be a non-empty string or a list of at most 4 of them")
    return tuple(stops)


def parse_tools(value: Json) -> Json:
    """The `tools` field as a chat template takes it; None where there are none."""
    if value is not None and not (isinstance(value, list) and all(isinstance(tool, dict) for tool in value)):
        _refuse("tools", "must be a list of tools")
    return value or None


def parse_messages(value: Json) -> tuple[Message, ...]:
    """Check the `messages` field.

    Raises:
        RequestError: 400 naming the message at fault.
    """
    if not isinstance(value, list) or not value:
        _refuse("messages", "must be a list of at least one message")
    return tuple(_message(message, f"messages[{i}]") for i, message in enumerate(value))


def _message(message: Json, param: str) -> Message:
    if not isinstance(message, dict):
        _refuse(param, "must be an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        _refuse(f"{param}.role", f"must be one of {', '.join(_ROLES)}")
    content = message.get("content")
    if content is None and role not in ("assistant", "function"):
        _refuse(f"{param}.content", "must be given")
    text = "" if content is None else _text(content, f"{param}.content")
    return Message(_ROLES[role], text + _tool_calls(message.get("tool_calls"), f"{param}.tool_calls"))


def _text(content: Json, param: str) -> str:
    """The text of a message: a string, or a list of text parts joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        _refuse(param, "must be a string or a list of parts")
    texts = []
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in ("text", "refusal"):
            raise RequestError(
                400,
                f"'{param}[{i}]' is a part of type {kind!r}; this model reads only text",
                param=f"{param}[{i}]",
                code="unsupported_content",
            )
        if not isinstance(part.get(kind), str):
            _refuse(f"{param}[{i}].{kind}", "must be a string")
        texts.append(part[kind])
    return "".join(texts)


def _tool_calls(calls: Json, param: str) -> str:
    """Earlier tool calls as text, so that the model sees what the tool results answer."""
    if calls is None:
        return ""
    if not isinstance(calls, list):
        _refuse(param, "must be a list")
    try:
        return "".join(f"\n{TOOL_CALL}{orjson.dumps(_called(call)).decode()}</tool_call>" for call in calls)
    except orjson.JSONEncodeError as exc:  # nested too deeply, or a number of more than 64 bits
        _refuse(param, f"cannot be told to the model: {exc}")


def _called(call: Json) -> Json:
    return call.get("function", call.get("custom")) if isinstance(call, dict) else call
