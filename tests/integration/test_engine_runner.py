"""Runner: a model over the arena's blocks answers as the same model does on its own."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from openclaw_cache.engine import plan as plan_module  # noqa: E402
from openclaw_cache.engine.arena import Arena  # noqa: E402
from openclaw_cache.engine.convert import converted  # noqa: E402
from openclaw_cache.engine.plan import Segment  # noqa: E402
from openclaw_cache.engine.runner import Runner, kv_layout  # noqa: E402
from openclaw_cache.engine.source import resolve  # noqa: E402
from openclaw_cache.errors import ConfigError  # noqa: E402
from openclaw_cache.kv.codec import Codec  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

B = 4
SIZES = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    # Large enough that attention decides the logits: at the default 0.02 any error in it would drown.
    "initializer_range": 0.3,
}
TINY = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "llama3-rope": lambda: transformers.LlamaConfig(
        **SIZES,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=None),
    "smollm3": lambda: transformers.SmolLM3Config(**SIZES, pad_token_id=0),
}
Kind = Literal["fp32", "fp16"]


def built(config: Any) -> Any:
    torch.manual_seed(3)
    return transformers.AutoModelForCausalLM.from_config(deepcopy(config)).eval()


@dataclass
class Bench:
    """A tiny model on its own, and the same weights over an arena."""

    own: Any
    runner: Runner
    arena: Arena

    def expected(self, *tokens: np.ndarray) -> Any:
        """Logits after the last token of each text, each computed alone and whole."""
        with torch.inference_mode():
            return torch.cat([self.own(torch.from_numpy(t)[None].long()).logits[:, -1] for t in tokens])


def bench(config: Any, kind: Kind = "fp32", num_blocks: int = 200) -> Bench:
    layout = kv_layout(config, B)
    arena = Arena(layout, num_blocks, torch.float32, "cpu")
    return Bench(built(config), Runner(built(config), arena, Codec(kind, layout)), arena)


@pytest.fixture(params=[0, 1024])
def call_tokens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both ends of the plan's cost model: everything shared and in place, or everything gathered."""
    monkeypatch.setattr(plan_module, "_CALL_TOKENS", request.param)
    monkeypatch.setattr(plan_module, "_ROW_TOKENS", 0)
    return int(request.param)


def texts(seed: int = 0) -> Iterator[np.ndarray]:
    source = np.random.default_rng(seed)
    while True:
        yield source.integers(0, 300, 400).astype(np.int32)


def deviation(left: Any, right: Any) -> float:
    return float((left - right).abs().max())


def scattered(num: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(200)[:num].astype(np.int32)


@pytest.mark.parametrize("name", TINY)
def test_prefill_in_odd_pieces_and_decode_give_the_logits_of_one_plain_pass(
    name: str, call_tokens: int
) -> None:
    b = bench(TINY[name]())
    text, table = next(texts())[:101], scattered(26)
    for start, end in pairwise([0, 1, 8, 37, 38, 80, 100, 101]):
        logits = b.runner.forward([Segment(text[start:end], start, table)])
        assert deviation(logits, b.expected(text[:end])) < 1e-4


@pytest.mark.parametrize("name", TINY)
def test_batch_of_prefills_and_decodes_over_a_shared_prefix_gives_the_logits_of_each_alone(
    name: str, call_tokens: int
) -> None:
    b = bench(TINY[name]())
    source, blocks = texts(1), scattered(120)
    prefix, other = next(source)[:88], next(source)[:50]
    shared = blocks[:22]
    b.runner.forward([Segment(prefix, 0, shared), Segment(other[:30], 0, blocks[30:43])])
    branches = [np.append(prefix, next(source)[:num]) for num in (1, 1, 6, 1)]
    segments = [
        Segment(branch[88:], 88, np.append(shared, blocks[50 + 2 * i : 52 + 2 * i]))
        for i, branch in enumerate(branches)
    ]
    segments.insert(2, Segment(other[30:], 30, blocks[30:43]))
    fresh = next(source)[:17]
    segments.append(Segment(fresh, 0, blocks[80:85]))
    expected = b.expected(*branches[:2], other, *branches[2:], fresh)
    assert deviation(b.runner.forward(segments), expected) < 1e-4


def test_sequence_may_read_blocks_that_another_fills_in_the_same_step(call_tokens: int) -> None:
    b = bench(TINY["llama"]())
    text, table = next(texts())[:20], scattered(6)
    twin = np.append(text[:16], text[:3])
    segments = [Segment(twin[16:], 16, np.append(table[:4], table[5])), Segment(text, 0, table[:5])]
    assert deviation(b.runner.forward(segments), b.expected(twin, text)) < 1e-4


def test_fp16_codec_gives_the_same_logits_however_the_prompt_is_split() -> None:
    b = bench(TINY["llama"](), "fp16")
    text = next(texts())[:90]
    whole = b.runner.forward([Segment(text, 0, scattered(23))])
    for bounds in ([0, 1, 2, 90], [0, 16, 32, 48, 64, 80, 90], [0, 89, 90]):
        for start, end in pairwise(bounds):
            logits = b.runner.forward([Segment(text[start:end], start, scattered(23, 5))])
        assert deviation(logits, whole) < 1e-3


def test_wait_layer_is_called_once_for_each_layer_before_that_layer_is_read() -> None:
    b = bench(TINY["qwen2"]())
    text, table = next(texts())[:33], scattered(9)
    b.runner.forward([Segment(text[:32], 0, table)])
    kept = [b.arena.keys_values(layer).clone() for layer in range(2)]
    for layer in range(2):
        b.arena.keys_values(layer).zero_()
    waited: list[int] = []

    def bring(layer: int) -> None:
        waited.append(layer)
        b.arena.keys_values(layer).copy_(kept[layer])

    logits = b.runner.forward([Segment(text[32:], 32, table)], bring)
    assert waited == [0, 1]
    assert deviation(logits, b.expected(text)) < 1e-4


def test_failure_of_wait_layer_ends_the_pass_and_the_next_pass_is_right() -> None:
    b = bench(TINY["llama"]())
    text, table = next(texts())[:9], scattered(3)

    def fail(layer: int) -> None:
        raise TimeoutError(str(layer))

    with pytest.raises(TimeoutError, match="0"):
        b.runner.forward([Segment(text, 0, table)], fail)
    assert deviation(b.runner.forward([Segment(text, 0, table)]), b.expected(text)) < 1e-4


def test_two_runners_in_one_process_do_not_share_state() -> None:
    one, two = bench(TINY["llama"]()), bench(TINY["qwen3"]())
    text, table = next(texts())[:30], scattered(8)
    for b in (one, two):
        b.runner.forward([Segment(text[:29], 0, table)])
    for b in (one, two):
        logits = b.runner.forward([Segment(text[29:], 29, table)])
        assert deviation(logits, b.expected(text)) < 1e-4


_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
_BERT = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (lambda: transformers.MistralConfig(**SIZES, sliding_window=64), "sliding_attention"),
        (
            lambda: transformers.Qwen2Config(
                **SIZES, use_sliding_window=True, sliding_window=64, max_window_layers=1
            ),
            "sliding_attention",
        ),
        (lambda: transformers.Gemma2Config(**SIZES, head_dim=8, sliding_window=512), "capped"),
        (
            lambda: transformers.GptOssConfig(
                **SIZES, head_dim=8, sliding_window=512, num_local_experts=2, num_experts_per_tok=1
            ),
            "sinks",
        ),
        (lambda: transformers.LlamaConfig(**SIZES, rope_parameters=_DYNAMIC), "dynamic"),
        (
            lambda: transformers.BloomConfig(vocab_size=300, hidden_size=48, n_layer=2, n_head=6),
            "cannot be replaced",
        ),
        (lambda: transformers.BertConfig(**_BERT), "its logits differ from its own"),  # sees later tokens
        (
            lambda: transformers.MambaConfig(vocab_size=300, hidden_size=48, num_hidden_layers=2),
            "no attention heads",
        ),
    ],
)
def test_model_that_would_answer_wrongly_is_refused_with_the_reason(config: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        bench(config())


@pytest.mark.parametrize(
    "config",
    [
        lambda: transformers.MistralConfig(**SIZES, sliding_window=512),
        lambda: transformers.Qwen2Config(**SIZES, use_sliding_window=False, sliding_window=64),
    ],
)
def test_window_that_never_hides_a_token_is_not_refused(config: Any) -> None:
    b = bench(config())
    text, table = next(texts())[:200], scattered(50)
    b.runner.forward([Segment(text[:190], 0, table)])
    assert deviation(b.runner.forward([Segment(text[190:], 190, table)]), b.expected(text)) < 1e-4


def test_arena_of_another_layout_is_refused() -> None:
    config = TINY["llama"]()
    layout = kv_layout(TINY["qwen3"](), B)
    with pytest.raises(ConfigError, match="layout"):
        Runner(built(config), Arena(layout, 8, torch.float32, "cpu"), Codec("fp32", layout))


@pytest.mark.model
def test_real_model_gives_the_same_greedy_reply_as_transformers_own_cache(model_data_dir: Path) -> None:
    torch.set_num_threads(2)
    source = resolve("smollm2-135m")
    folder, _ = converted(source.path, source.model_id, model_data_dir / "models", print)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = np.random.default_rng(4).integers(20, 40000, 150).astype(np.int32)
    ids = torch.from_numpy(prompt)[None].long()
    options = {"do_sample": False, "min_new_tokens": 32, "max_new_tokens": 32}
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, 150:].tolist()
    layout = kv_layout(model.config, 16)
    assert (layout.num_layers, layout.num_kv_heads, layout.head_dim) == (30, 3, 64)
    runner = Runner(model, Arena(layout, 32, torch.float32, "cpu"), Codec("fp32", layout))
    table = np.random.default_rng(5).permutation(32).astype(np.int32)
    ends = model.generation_config.eos_token_id
    text = prompt
    for start, end in ((0, 100), *((n, n + 1) for n in range(149, 181))):
        if start == 149:
            runner.forward([Segment(prompt[100:149], 100, table)])
        logits = runner.forward([Segment(text[start:end], start, table)])
        if end >= 150:
            allowed = logits[0].index_fill(0, torch.tensor(ends), -torch.inf)  # as min_new_tokens does
            text = np.append(text, np.int32(allowed.argmax()))
    assert text[150:].tolist() == expected
