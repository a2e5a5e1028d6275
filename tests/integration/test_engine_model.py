"""The decode loop with the real model, against transformers' own `generate`."""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.engine.chat import Event, Finished, Message, Piece, Prefilled, Sampling
from openclaw_cache.engine.source import resolve
from openclaw_cache.errors import ConfigError

pytestmark = pytest.mark.model

FRANCE = [Message("user", "What is the capital of France?")]
# What the publisher's template and tokenizer make of FRANCE (published by other runtimes of SmolLM2).
FRANCE_IDS = [
    1,
    9690,
    198,
    2683,
    359,
    253,
    5356,
    5646,
    11173,
    3365,
    3511,
    308,
    34519,
    28,
    7018,
    411,
    407,
    19712,
]
FRANCE_IDS += [8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]


def load(spec: str, data_dir: Path) -> Any:
    model = importlib.import_module("openclaw_cache.engine.model")  # brings torch: not at collection
    return model.load(resolve(spec), data_dir, 2, print)


@pytest.fixture(scope="module")
def model(model_data_dir: Path) -> Any:
    return load("smollm2-135m", model_data_dir)


def text_of(events: Iterable[Event], index: int = 0) -> str:
    return "".join(e.text for e in events if isinstance(e, Piece) and e.index == index)


def end_of(events: Iterable[Event], index: int = 0) -> Finished:
    (end,) = (e for e in events if isinstance(e, Finished) and e.index == index)
    return end


def generated_by_transformers(model: Any, prompt: list[int], num_tokens: int) -> list[int]:
    torch = importlib.import_module("torch")
    ids = torch.tensor([prompt])
    out = model._model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=num_tokens, pad_token_id=2
    )
    return [int(token) for token in out[0, len(prompt) :]]


def test_it_knows_the_capital_of_france_and_stops_by_itself(model: Any) -> None:
    events = list(model.generate(model.encode(FRANCE), Sampling(max_tokens=40)))
    assert "Paris" in text_of(events)
    assert end_of(events).reason == "stop"


def test_the_prompt_is_what_the_publishers_template_makes(model: Any) -> None:
    assert model.encode(FRANCE) == FRANCE_IDS


@pytest.mark.parametrize("filler", [0, 40])  # 40 sentences: several prefill steps
def test_greedy_replies_are_those_of_transformers_generate(model: Any, filler: int) -> None:
    question = (
        "The quick brown fox jumps over the lazy dog. " * filler + "Tell me about foxes in 2 sentences."
    )
    prompt = model.encode([Message("user", question)])
    events = list(model.generate(prompt, Sampling(max_tokens=30)))
    expected = generated_by_transformers(model, prompt, 30)
    assert text_of(events) == model._codec.decode(expected, skip_special_tokens=True)
    steps = [event.num_tokens for event in events if isinstance(event, Prefilled)]
    assert steps[-1] == len(prompt)
    assert (len(steps) > 1) == (filler > 0)


def test_the_same_seed_gives_the_same_text_and_another_seed_another(model: Any) -> None:
    prompt = model.encode([Message("user", "Write one line of a poem.")])

    def sampled(seed: int, top_p: float = 1.0) -> str:
        sampling = Sampling(max_tokens=12, temperature=1.0, top_p=top_p, seed=seed)
        return text_of(model.generate(prompt, sampling))

    assert sampled(1) == sampled(1)
    assert sampled(1, 0.9) == sampled(1, 0.9)
    assert len({sampled(seed) for seed in range(4)}) > 1


def test_a_tiny_nucleus_or_temperature_is_greedy(model: Any) -> None:
    prompt = model.encode(FRANCE)
    greedy = text_of(model.generate(prompt, Sampling(max_tokens=8)))
    for sampling in (
        Sampling(max_tokens=8, temperature=1.5, top_p=1e-6, seed=3),
        Sampling(max_tokens=8, temperature=2.0, top_p=0.0, seed=3),
        Sampling(max_tokens=8, temperature=1e-4, seed=3),
    ):
        assert text_of(model.generate(prompt, sampling)) == greedy


def test_choice_i_of_n_is_what_seed_plus_i_gives_alone(model: Any) -> None:
    prompt = model.encode([Message("user", "Name an animal.")])
    together = list(model.generate(prompt, Sampling(max_tokens=6, temperature=1.2, seed=10, n=3)))
    for index in range(3):
        alone = list(model.generate(prompt, Sampling(max_tokens=6, temperature=1.2, seed=10 + index)))
        assert text_of(together, index) == text_of(alone)


def test_a_stop_sequence_across_tokens_ends_the_reply_before_it(model: Any) -> None:
    prompt = model.encode(FRANCE)
    whole = text_of(model.generate(prompt, Sampling(max_tokens=40)))
    events = list(model.generate(prompt, Sampling(max_tokens=40, stop=("zzz", "f France is P"))))
    assert text_of(events) == whole[: whole.index("f France is P")]
    assert end_of(events).reason == "stop"


def test_max_tokens_ends_the_reply_with_length_after_exactly_that_many(model: Any) -> None:
    events = list(model.generate(model.encode(FRANCE), Sampling(max_tokens=3)))
    assert end_of(events) == Finished(0, "length", 3)
    assert text_of(events) == "The capital of"


def test_log_probabilities_are_those_of_one_forward_pass_over_everything(model: Any) -> None:
    torch = importlib.import_module("torch")
    prompt = model.encode(FRANCE)
    events = list(model.generate(prompt, Sampling(max_tokens=5, top_logprobs=3)))
    shown = [logprob for event in events if isinstance(event, Piece) for logprob in event.logprobs]
    reply = generated_by_transformers(model, prompt, 5)
    with torch.no_grad():
        logits = model._model(torch.tensor([prompt + reply])).logits[0]
    expected = torch.log_softmax(logits, -1)
    assert [one.text for one in shown] == ["The", " capital", " of", " France", " is"]
    for i, (one, token) in enumerate(zip(shown, reply, strict=True)):
        row = expected[len(prompt) - 1 + i]
        assert one.logprob == pytest.approx(float(row[token]), abs=1e-3)
        assert [other.logprob for other in one.top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-3)


def test_closing_the_generator_leaves_the_model_usable(model: Any) -> None:
    prompt = model.encode(FRANCE)
    begun = model.generate(prompt, Sampling(max_tokens=1000))
    next(begun)
    next(begun)
    begun.close()
    assert "Paris" in text_of(model.generate(prompt, Sampling(max_tokens=10)))


def test_a_folder_that_is_no_model_is_a_clear_error(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="cannot load the model"):
        load(str(tmp_path), tmp_path)
