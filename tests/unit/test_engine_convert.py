from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.engine import convert
from openclaw_cache.errors import ConfigError

np = pytest.importorskip("numpy", reason="the [engine] extra is not installed")
gguf = pytest.importorskip("gguf", reason="the [engine] extra is not installed")

HIDDEN, HEADS, KV_HEADS, LAYERS, WINDOW = 16, 4, 2, 2, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "1", "2", "Ġ", "ab", "Ġab"]


def write_gguf(path: Path, weights: dict[str, Any], **changes: Any) -> Path:
    """A tiny Llama in the GGUF format, written by the format's own library."""
    writer = gguf.GGUFWriter(path, changes.get("arch", "llama"))
    writer.add_block_count(LAYERS)
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(2 * HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changes.get("pre", "smollm"))
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b", "Ġ ab"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if "template" not in changes:
        writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    for name, tensor in weights.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rotary_pairs(weights: Any, num_heads: int) -> Any:
    """Row order that llama.cpp's converter writes: within a head, row i of each half next to each other."""
    size = len(weights) // num_heads
    rows = []
    for head in range(num_heads):
        for i in range(size // 2):
            rows += [head * size + i, head * size + size // 2 + i]
    return weights[rows]


def test_rows_of_one_head_of_four_are_put_back_by_hand() -> None:
    stored = np.array([[0.0], [2.0], [1.0], [3.0]], dtype=np.float32)
    assert convert.unpermuted(stored, 1).ravel().tolist() == [0, 1, 2, 3]


def test_unpermuting_undoes_llama_cpps_order_for_many_heads() -> None:
    weights = np.arange(24 * 5, dtype=np.float32).reshape(24, 5)
    assert (convert.unpermuted(rotary_pairs(weights, 3), 3) == weights).all()


def test_a_converted_model_computes_what_the_original_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the [engine] extra is not installed")
    transformers = pytest.importorskip("transformers", reason="the [engine] extra is not installed")
    torch.manual_seed(7)
    original = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(TOKENS),
            hidden_size=HIDDEN,
            intermediate_size=2 * HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            max_position_embeddings=WINDOW,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
        )
    ).eval()
    with torch.no_grad():
        for parameter in original.parameters():
            parameter.normal_(0, 0.5)
    state = {name: tensor.numpy() for name, tensor in original.state_dict().items()}
    weights = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
        "output.weight": state["lm_head.weight"],
    }
    for layer in range(LAYERS):
        ours, theirs = f"blk.{layer}", f"model.layers.{layer}"
        q, k = (state[f"{theirs}.self_attn.{x}_proj.weight"] for x in "qk")
        weights[f"{ours}.attn_q.weight"] = np.ascontiguousarray(rotary_pairs(q, HEADS))
        weights[f"{ours}.attn_k.weight"] = np.ascontiguousarray(rotary_pairs(k, KV_HEADS))
        weights[f"{ours}.attn_v.weight"] = state[f"{theirs}.self_attn.v_proj.weight"]
        weights[f"{ours}.attn_output.weight"] = state[f"{theirs}.self_attn.o_proj.weight"]
        weights[f"{ours}.attn_norm.weight"] = state[f"{theirs}.input_layernorm.weight"]
        weights[f"{ours}.ffn_norm.weight"] = state[f"{theirs}.post_attention_layernorm.weight"]
        for x in ("gate", "up", "down"):
            weights[f"{ours}.ffn_{x}.weight"] = state[f"{theirs}.mlp.{x}_proj.weight"]
    source = write_gguf(tmp_path / "tiny.gguf", weights)
    folder, _ = convert.converted(source, "tiny", tmp_path / "models", lambda _line: None)
    copy = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([[1, 3, 8, 5, 9, 2, 4, 6]])
    with torch.no_grad():
        assert torch.equal(copy(prompt).logits, original(prompt).logits)


def tied_weights() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    embedding = rng.standard_normal((len(TOKENS), HIDDEN), dtype=np.float32)
    return {"token_embd.weight": embedding, "output_norm.weight": np.ones(HIDDEN, dtype=np.float32)}


def test_a_model_is_converted_once_and_again_only_if_it_is_damaged(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "tiny.gguf", tied_weights())
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
    source = write_gguf(tmp_path / "tiny.gguf", tied_weights())
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(convert.converted, source, "tiny", tmp_path / "models", said.append) for _ in range(2)
        ]
        assert both[0].result() == both[1].result()
    assert said.count("converting weights 100%") == 1


def test_other_weights_have_another_folder_and_fingerprint(tmp_path: Path) -> None:
    weights = tied_weights()
    first = convert.converted(
        write_gguf(tmp_path / "a.gguf", weights), "tiny", tmp_path / "models", lambda _line: None
    )
    weights["token_embd.weight"][3, 3] += 1
    second = convert.converted(
        write_gguf(tmp_path / "b.gguf", weights), "tiny", tmp_path / "models", lambda _line: None
    )
    assert first[0] != second[0]
    assert first[1] != second[1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arch": "qwen2"}, "general.architecture is 'qwen2'"),
        ({"pre": "llama-bpe"}, "tokenizer.ggml.pre is 'llama-bpe'"),
        ({"template": None}, "no chat template"),
    ],
)
def test_a_model_that_would_convert_wrongly_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    source = write_gguf(tmp_path / "x.gguf", tied_weights(), **changes)
    with pytest.raises(ConfigError, match=reason):
        convert.converted(source, "x", tmp_path / "models", lambda _line: None)
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()]


def test_a_tensor_that_a_llama_does_not_have_is_refused(tmp_path: Path) -> None:
    weights = tied_weights() | {"blk.0.attn_q.bias": np.zeros(HIDDEN, dtype=np.float32)}
    with pytest.raises(ConfigError, match=r"blk\.0\.attn_q\.bias"):
        convert.converted(
            write_gguf(tmp_path / "x.gguf", weights), "x", tmp_path / "models", lambda _line: None
        )


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model" * 100)
    with pytest.raises(ConfigError, match="not a readable GGUF"):
        convert.converted(tmp_path / "x.gguf", "x", tmp_path / "models", lambda _line: None)
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(ConfigError, match="not a readable GGUF"):
        convert.converted(tmp_path / "x.gguf", "x", tmp_path / "models", lambda _line: None)
