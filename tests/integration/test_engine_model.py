"""The engine with the real model, against transformers' own `generate`."""

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openclaw_cache.engine.chat import Finished, Message, Sampling, Work
from openclaw_cache.errors import ConfigError
from support.real_engine import RealEngine, load, running

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

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


@pytest.fixture(scope="module")
def model(model_data_dir: Path) -> Any:
    return load("smollm2-135m", model_data_dir)


@pytest.fixture(scope="module")
def reference(model_data_dir: Path) -> Any:
    """The same network with its own attention and cache."""
    return load("smollm2-135m", model_data_dir).network


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealEngine]:
    async with running(model, tmp_path_factory.mktemp("kv")) as engine:
        yield engine


def generated_by_transformers(reference: Any, prompt: list[int], num_tokens: int) -> list[int]:
    torch = importlib.import_module("torch")
    ids = torch.tensor([prompt])
    out = reference.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=num_tokens, pad_token_id=2
    )
    return [int(token) for token in out[0, len(prompt) :]]


async def test_it_knows_the_capital_of_france_and_stops_by_itself(model: Any, engine: RealEngine) -> None:
    answer = await engine.ask(model.encode(FRANCE), 40)
    assert "Paris" in answer.text()
    assert answer.end().reason == "stop"


async def test_the_prompt_is_what_the_publishers_template_makes(model: Any) -> None:
    assert model.encode(FRANCE) == FRANCE_IDS


@pytest.mark.parametrize("filler", [0, 40])  # 40 sentences: several prefill steps
async def test_greedy_replies_are_those_of_transformers_generate(
    model: Any, engine: RealEngine, reference: Any, filler: int
) -> None:
    question = (
        "The quick brown fox jumps over the lazy dog. " * filler + "Tell me about foxes in 2 sentences."
    )
    prompt = model.encode([Message("user", question)])
    answer = await engine.ask(prompt, 30)
    expected = generated_by_transformers(reference, prompt, 30)
    assert answer.text() == model._codec.decode(expected, skip_special_tokens=True)
    assert answer.prefilled.num_tokens == len(prompt)
    assert (len(prompt) > 256) == (filler > 0)


async def test_the_same_seed_gives_the_same_text_and_another_seed_another(
    model: Any, engine: RealEngine
) -> None:
    prompt = model.encode([Message("user", "Write one line of a poem.")])

    async def sampled(seed: int, top_p: float = 1.0) -> str:
        return (await engine.ask(prompt, 12, temperature=1.0, top_p=top_p, seed=seed)).text()

    assert await sampled(1) == await sampled(1)
    assert await sampled(1, 0.9) == await sampled(1, 0.9)
    assert len({await sampled(seed) for seed in range(4)}) > 1


async def test_a_tiny_nucleus_or_temperature_is_greedy(model: Any, engine: RealEngine) -> None:
    prompt = model.encode(FRANCE)
    greedy = (await engine.ask(prompt, 8)).text()
    for temperature, top_p in ((1.5, 1e-6), (2.0, 0.0), (1e-4, 1.0)):
        answer = await engine.ask(prompt, 8, temperature=temperature, top_p=top_p, seed=3)
        assert answer.text() == greedy


async def test_choice_i_of_n_is_what_seed_plus_i_gives_alone(model: Any, engine: RealEngine) -> None:
    prompt = model.encode([Message("user", "Name an animal.")])
    together = await engine.ask(prompt, 6, temperature=1.2, seed=10, n=3)
    for index in range(3):
        alone = await engine.ask(prompt, 6, temperature=1.2, seed=10 + index)
        assert together.text(index) == alone.text()


async def test_a_stop_sequence_across_tokens_ends_the_reply_before_it(model: Any, engine: RealEngine) -> None:
    prompt = model.encode(FRANCE)
    whole = (await engine.ask(prompt, 40)).text()
    answer = await engine.ask(prompt, 40, stop=("zzz", "f France is P"))
    assert answer.text() == whole[: whole.index("f France is P")]
    assert answer.end().reason == "stop"


async def test_max_tokens_ends_the_reply_with_length_after_exactly_that_many(
    model: Any, engine: RealEngine
) -> None:
    answer = await engine.ask(model.encode(FRANCE), 3)
    assert answer.end() == Finished(0, "length", 3)
    assert answer.text() == "The capital of"


# K/V are rounded to the cache's dtype before they are used, so that a hit equals a miss.
@pytest.mark.parametrize(("compression", "tolerance"), [("fp32", 1e-3), ("fp16", 1e-2)])
async def test_log_probabilities_are_those_of_one_forward_pass_over_everything(
    model: Any, reference: Any, tmp_path: Path, compression: str, tolerance: float
) -> None:
    torch = importlib.import_module("torch")
    prompt = model.encode(FRANCE)
    async with running(model, tmp_path, compression=compression) as engine:
        shown = (await engine.ask(prompt, 5, top_logprobs=3)).logprobs()
    reply = generated_by_transformers(reference, prompt, 5)
    with torch.no_grad():
        logits = reference(torch.tensor([prompt + reply])).logits[0]
    expected = torch.log_softmax(logits, -1)
    assert [one.text for one in shown] == ["The", " capital", " of", " France", " is"]
    for i, (one, token) in enumerate(zip(shown, reply, strict=True)):
        row = expected[len(prompt) - 1 + i]
        likeliest = row.topk(3).values.tolist()
        assert one.logprob == pytest.approx(float(row[token]), abs=tolerance)
        assert [other.logprob for other in one.top] == pytest.approx(likeliest, abs=tolerance)


async def test_a_reply_that_is_given_up_leaves_the_model_usable(model: Any, engine: RealEngine) -> None:
    prompt = model.encode(FRANCE)
    ticket = engine.engine.submit(Work(prompt, Sampling(max_tokens=1000)))
    events = aiter(ticket)
    await anext(events)
    await anext(events)
    ticket.close()
    assert "Paris" in (await engine.ask(prompt, 10)).text()


async def test_a_folder_that_is_no_model_is_a_clear_error(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="cannot load the model"):
        load(str(tmp_path), tmp_path)


async def test_a_device_that_is_not_there_is_a_clear_error(model_data_dir: Path) -> None:
    models = importlib.import_module("openclaw_cache.engine.model")
    with pytest.raises(ConfigError, match=r"device: tpu is not available here; there is .*cpu"):
        models.choose_device("tpu")
    assert models.choose_device("cpu").type == "cpu"
