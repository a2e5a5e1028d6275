from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.engine import convert
from openclaw_cache.engine.gguf_weights import unpermuted
from openclaw_cache.errors import ConfigError

for library in ("gguf", "torch", "transformers"):
    pytest.importorskip(library, reason="the [engine] extra is not installed")

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from support.tiny_gguf import HEADS, HIDDEN, random_model, rotary_pairs, weights_of, write_gguf  # noqa: E402

PROMPT = [1, 3, 8, 5, 9, 2, 4, 6, 7, 3, 3, 8, 5]


def converted(source: Path) -> Path:
    return convert.converted(source, "tiny", source.parent / "models", lambda _line: None)[0]


def logits_of(model: Any) -> Any:
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits


def copy_of(folder: Path) -> Any:
    model, loaded = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loaded["missing_keys"]
    assert not loaded["unexpected_keys"]
    return model.eval()


def test_rows_of_one_head_of_four_are_put_back_by_hand() -> None:
    stored = np.array([[0.0], [2.0], [1.0], [3.0]], dtype=np.float32)
    assert unpermuted(stored, 1).ravel().tolist() == [0, 1, 2, 3]


def test_unpermuting_undoes_llama_cpps_order_for_many_heads_and_for_biases() -> None:
    weights = np.arange(24 * 5, dtype=np.float32).reshape(24, 5)
    assert (unpermuted(weights[rotary_pairs(24, 3)], 3) == weights).all()
    assert (unpermuted(weights[rotary_pairs(24, 3), 0], 3) == weights[:, 0]).all()


@pytest.mark.parametrize(
    ("arch", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"attention_bias": True}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("qwen2", {}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {}),
        ("qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
    ],
)
def test_a_converted_model_computes_what_the_original_does(
    tmp_path: Path, arch: str, changes: dict[str, Any]
) -> None:
    original = random_model(arch, **changes)
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights_of(original), arch))
    assert torch.equal(logits_of(copy_of(folder)), logits_of(original))


@pytest.mark.parametrize(
    ("scaling", "fields"),
    [
        ({"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}),
        ({"rope_type": "linear", "factor": 4.0}, {"factor": 4.0}),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            {"type": "yarn", "factor": 4.0, "original_context_length": 16},
        ),
        (
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 4096,
                "beta_fast": 8.0,
                "beta_slow": 2.0,
            },
            {
                "type": "yarn",
                "factor": 4.0,
                "original_context_length": 4096,
                "yarn_beta_fast": 8.0,
                "yarn_beta_slow": 2.0,
                "yarn_attn_factor": 1.0,
            },
        ),
        ({"rope_type": "default"}, {"type": "none", "factor": 4.0}),
        ({"rope_type": "default"}, {"factor": 0.0}),
    ],
)
def test_scaled_rotary_embeddings_compute_what_the_original_does(
    tmp_path: Path, scaling: dict[str, Any], fields: dict[str, Any]
) -> None:
    original = random_model("qwen2", rope_parameters=scaling | {"rope_theta": 100000.0})
    changes = {f"rope__scaling__{name}": value for name, value in fields.items()}
    copy = copy_of(converted(write_gguf(tmp_path / "tiny.gguf", weights_of(original), "qwen2", **changes)))
    assert torch.equal(copy.model.rotary_emb.inv_freq, original.model.rotary_emb.inv_freq)
    assert torch.equal(logits_of(copy), logits_of(original))


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama_3_1s_scaling_is_known_by_the_frequencies_that_the_file_keeps(
    tmp_path: Path, factor: float
) -> None:
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    original = random_model("llama", rope_parameters=scaling)
    # What llama.cpp keeps: by how much each frequency is lower than it would be without scaling.
    plain = random_model("llama", rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    factors = (plain.model.rotary_emb.inv_freq / original.model.rotary_emb.inv_freq).numpy()
    assert factors[0] == pytest.approx(1.0)
    assert factors[-1] == pytest.approx(factor)
    weights = weights_of(original) | {"rope_freqs.weight": factors}
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights, rope__freq_base=500000.0))
    assert torch.equal(logits_of(copy_of(folder)), logits_of(original))


def test_frequencies_that_are_not_llama_3_1s_are_refused(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    weights = weights_of(random_model("llama")) | {"rope_freqs.weight": factors}
    with pytest.raises(ConfigError, match=r"rope_freqs\.weight are not"):
        converted(write_gguf(tmp_path / "tiny.gguf", weights))


def test_a_llama_with_a_sliding_window_is_a_mistral(tmp_path: Path) -> None:
    original = random_model("mistral", sliding_window=4)
    weights = weights_of(original)
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights, attention__sliding_window=4))
    assert torch.equal(logits_of(copy_of(folder)), logits_of(original))


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_a_sliding_window_as_wide_as_the_context_is_none(tmp_path: Path, arch: str) -> None:
    weights = weights_of(random_model(arch))
    folder = converted(write_gguf(tmp_path / "wide.gguf", weights, arch, attention__sliding_window=64))
    assert copy_of(folder).config.model_type == arch


def test_the_size_of_a_head_is_the_share_of_the_width_where_the_file_does_not_say(tmp_path: Path) -> None:
    original = random_model("llama", head_dim=HIDDEN // HEADS)
    changes = {"attention__key_length": None, "attention__value_length": None, "rope__dimension_count": 8}
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights_of(original), **changes))
    assert torch.equal(logits_of(copy_of(folder)), logits_of(original))


def test_a_bias_that_the_file_does_not_have_is_zero(tmp_path: Path) -> None:
    original = random_model("qwen2")
    weights = weights_of(original)
    for name in [name for name in weights if name.endswith(".bias")]:
        del weights[name]
    with torch.no_grad():
        for name, parameter in original.named_parameters():
            if name.endswith(".bias"):
                parameter.zero_()
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights, "qwen2"))
    assert torch.equal(logits_of(copy_of(folder)), logits_of(original))


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q5_0", "Q4_0", "Q4_1"])
def test_quantised_weights_are_those_that_the_formats_own_library_reads(tmp_path: Path, kind: str) -> None:
    quantisation = gguf.GGMLQuantizationType[kind]
    original = random_model("qwen3")
    weights = weights_of(original)
    encoded = gguf.quants.quantize(weights["blk.1.ffn_gate.weight"], quantisation)
    weights["blk.1.ffn_gate.weight"] = (encoded, quantisation)
    folder = converted(write_gguf(tmp_path / "tiny.gguf", weights, "qwen3"))
    expected = torch.from_numpy(gguf.quants.dequantize(encoded, quantisation))
    assert torch.equal(copy_of(folder).model.layers[1].mlp.gate_proj.weight, expected)


def test_an_encoding_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    weights = weights_of(random_model("llama"))
    weights["output_norm.weight"] = weights["output_norm.weight"].astype(np.float64)
    with pytest.raises(ConfigError, match=r"output_norm\.weight is encoded as F64"):
        converted(write_gguf(tmp_path / "x.gguf", weights))


def test_a_model_is_converted_once_and_again_only_if_it_is_damaged(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "tiny.gguf", weights_of(random_model("llama")))
    said: list[str] = []
    folder, fingerprint = convert.converted(source, "tiny", tmp_path / "models", said.append)
    assert said[-1] == "converting weights 100%"
    said.clear()
    assert convert.converted(source, "tiny", tmp_path / "models", said.append) == (folder, fingerprint)
    assert said == []
    (folder / "tokenizer.json").write_text("{}")
    assert convert.converted(source, "tiny", tmp_path / "models", said.append) == (folder, fingerprint)
    assert "damaged" in said[0]


def test_of_two_that_need_a_model_at_once_one_converts_and_both_get_it(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "tiny.gguf", weights_of(random_model("llama")))
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(convert.converted, source, "tiny", tmp_path / "models", said.append) for _ in range(2)
        ]
        assert both[0].result() == both[1].result()
    assert said.count("converting weights 100%") == 1


def test_other_weights_have_another_folder_and_fingerprint(tmp_path: Path) -> None:
    weights = weights_of(random_model("llama"))
    models = tmp_path / "models"
    first = convert.converted(write_gguf(tmp_path / "a.gguf", weights), "tiny", models, lambda _line: None)
    weights["token_embd.weight"][3, 3] += 1
    second = convert.converted(write_gguf(tmp_path / "b.gguf", weights), "tiny", models, lambda _line: None)
    assert first[0] != second[0]
    assert first[1] != second[1]


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (
            {"blk.0.attn_q_norm.weight": np.ones(16, dtype=np.float32)},
            r"blk\.0\.attn_q_norm\.weight is not known",
        ),
        ({"blk.0.ffn_gate_inp.weight": np.ones((4, HIDDEN), dtype=np.float32)}, "ffn_gate_inp"),
        ({"blk.1.ffn_up.weight": None}, r"blk\.1\.ffn_up\.weight is missing"),
        ({"blk.1.attn_norm.weight": np.ones(5, dtype=np.float32)}, r"has the shape \(5,\), not \(32,\)"),
    ],
)
def test_a_tensor_too_many_too_few_or_of_another_shape_is_refused(
    tmp_path: Path, weights: dict[str, Any], reason: str
) -> None:
    changed = weights_of(random_model("llama")) | weights
    changed = {name: values for name, values in changed.items() if values is not None}
    with pytest.raises(ConfigError, match=reason):
        converted(write_gguf(tmp_path / "x.gguf", changed))
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("arch", "changes", "reason"),
    [
        ("gemma", {}, "general.architecture is 'gemma'"),
        ("llama", {"attention__scale": 0.5}, "llama.attention.scale is not known"),
        ("llama", {"expert_count": 8}, "llama.expert_count is 8, only 0"),
        ("qwen3", {"pooling_type": 3}, "qwen3.pooling_type is 3"),
        ("llama", {"attention__causal": False}, "llama.attention.causal is False"),
        ("llama", {"attention__value_length": 8}, "llama.attention.value_length is 8, only 16"),
        ("llama", {"rope__dimension_count": 8}, "llama.rope.dimension_count is 8, only 16"),
        ("llama", {"attention__head_count": [4, 2]}, r"head_count is \[4, 2\], which is not int"),
        ("llama", {"block_count": None}, "it has no llama.block_count"),
        ("llama", {"rope__scaling__type": "longrope"}, "rope.scaling.type is 'longrope'"),
        ("llama", {"rope__scaling__factor": 2.0, "rope__scaling__attn_factor": 1.2}, "attn_factor is 1.2"),
        ("qwen2", {"attention__sliding_window": 8}, "qwen2.attention.sliding_window is 8"),
        ("llama", {"split__count": 3}, "one part of several; merge them first"),
    ],
)
def test_a_model_that_would_convert_wrongly_is_refused_with_the_reason(
    tmp_path: Path, arch: str, changes: dict[str, Any], reason: str
) -> None:
    source = write_gguf(tmp_path / "x.gguf", {"token_embd.weight": np.zeros((10, 32))}, arch, **changes)
    with pytest.raises(ConfigError, match=reason):
        converted(source)
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()]


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    for content in (b"not a model" * 100, b"", b"GGUF\x03\x00\x00\x00" + b"\xff" * 40):
        (tmp_path / "x.gguf").write_bytes(content)
        with pytest.raises(ConfigError, match="not a readable GGUF"):
            convert.converted(tmp_path / "x.gguf", "x", tmp_path / "models", lambda _line: None)
