"""`openclaw-cache simulate` on cuts of real traces and logs, against figures and replays from outside of it."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import xml.etree.ElementTree as ET
from collections import OrderedDict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from openclaw_cache import cli
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.simulation.forms.forms import opened
from openclaw_cache.simulation.replay import replay
from openclaw_cache.simulation.trace import collected

BLOCK_BYTES = 512 * 131_072


@pytest.fixture(scope="module")
def traces(data_root: Path) -> Path:
    return data_root / "traces"


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.app, ["simulate", *map(str, args)], input=stdin)


def shown(*args: str | Path, stdin: bytes | None = None) -> Any:
    result = run(*args, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_public_figures_of_mooncakes_conversations(traces: Path) -> None:
    """Token hit ratios that stand in the data folder's README: LRU at 5,000 and 10,000 blocks, and infinite."""
    tiers = [f"--tier=host={5_000 * BLOCK_BYTES}", f"--tier=disk={10_000 * BLOCK_BYTES}"]
    report = shown(traces / "mooncake/conversation_trace.jsonl", *tiers)
    assert [row["num_blocks"] for row in report["tiers"]] == [5_000, 10_000]
    assert [round(row["total_ratio"], 3) for row in report["tiers"]] == [0.114, 0.216]
    assert round(report["infinite"]["hit_ratio"], 3) == 0.374
    assert (report["form"], report["num_requests"]) == ("mooncake", 12_031)


def test_the_public_bound_of_mooncakes_conversations(traces: Path, tmp_path: Path) -> None:
    report = shown(
        traces / "mooncake/conversation_trace.jsonl",
        "--policy=belady",
        "--sample=off",
        f"--tier=host={5_000 * BLOCK_BYTES}",
        f"--tier=disk={10_000 * BLOCK_BYTES}",
    )
    assert [round(row["total_ratio"], 3) for row in report["tiers"]] == [0.348, 0.374]


@pytest.mark.parametrize(("num_blocks", "users"), [(2_000, 5), (8_000, 5), (30_000, 5), (8_000, 20)])
def test_one_pass_is_within_one_percent_of_the_engines_own_tree(
    traces: Path, tmp_path: Path, num_blocks: int, users: int
) -> None:
    """Coding agents: the curve against a replay through the radix tree under the engine's LRU."""
    with gzip.open(traces / "cc_weka/cc_weka_00.jsonl.gz") as file:
        lines = list(islice(file, 40))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines))
    tree = replay(
        collected(opened("coding", lines, "c", num_users=users).requests, 64), num_blocks, POLICIES["lru"]()
    )
    report = shown(cut, f"--users={users}", "--bytes-per-token=100", f"--tier=host={num_blocks * 6400}")
    (host,) = report["tiers"]
    assert host["num_blocks"] == num_blocks
    assert host["total_ratio"] == pytest.approx(tree.hit_ratio, abs=0.01)


def test_captured_requests_against_a_cache_that_is_kept_block_by_block(data_root: Path) -> None:
    """Bodies read and hashed here in another way: all that the model reads, in runs of 70 bytes."""
    folder = data_root / "openclaw"
    prompts: list[tuple[float, bytes]] = []
    for file in sorted(folder.glob("*.json")):
        for request in json.loads(file.read_bytes())["requests"] if file.name != "index.json" else ():
            body = request["body"]
            texts = [json.dumps(tool, sort_keys=True) for tool in body.get("tools", ())]
            texts += [json.dumps(body.get(key)) for key in ("system", "instructions")]
            texts += [
                json.dumps(one, sort_keys=True) for key in ("messages", "input") for one in body.get(key, ())
            ]
            prompts.append((request["t"], (body["model"] + "\n".join(texts)).encode()))
    prompts.sort(key=lambda prompt: prompt[0])

    def kept(capacity: int) -> float:
        held: OrderedDict[bytes, None] = OrderedDict()
        num_found = num_bytes = 0
        for _, prompt in prompts:
            names, name = [], b""
            for end in range(70, len(prompt) + 1, 70):
                name = hashlib.sha256(name + prompt[end - 70 : end]).digest()
                names.append(name)
            leading = next((i for i, one in enumerate(names) if one not in held), len(names))
            num_found, num_bytes = num_found + 70 * leading, num_bytes + len(prompt)
            for one in reversed(names[:capacity]):
                held[one] = None
                held.move_to_end(one)
            while len(held) > capacity:
                held.popitem(last=False)
        return num_found / num_bytes

    tiers = [f"--tier={tier}={num * 1600}" for tier, num in (("device", 500), ("host", 1500), ("disk", 6000))]
    report = shown(folder, "--bytes-per-token=100", *tiers)
    assert (report["form"], report["num_requests"]) == ("log", len(prompts))
    for row, num_blocks in zip(report["tiers"], (500, 1500, 6000), strict=True):
        # The JSON around the texts is not the same in both readings.
        assert row["total_ratio"] == pytest.approx(kept(num_blocks), abs=0.03)
    assert [row["hit_ratio"] > 0 for row in report["tiers"]] == [True, True, True]


def test_a_text_trace_from_the_standard_input_in_order_of_time(traces: Path) -> None:
    with gzip.open(traces / "lmcache_agent/taubench.jsonl.gz") as file:
        lines = list(islice(file, 60))
    in_order = sorted(lines, key=lambda line: int(json.loads(line)["timestamp"]))
    assert in_order != lines
    options = ("--tier=host=60kB", "--bytes-per-token=100")
    one, other = (shown("-", *options, stdin=b"".join(some)) for some in (lines, in_order))
    assert one["num_requests"] == 60
    assert one["tiers"] == other["tiers"]
    assert 0 < one["tiers"][0]["hit_ratio"] < one["infinite"]["hit_ratio"] < 1


def test_an_installed_model_gives_its_tokenizer_and_the_size_of_its_kv(
    traces: Path, tmp_path: Path, model_data_dir: Path
) -> None:
    with gzip.open(traces / "lmcache_agent/taubench.jsonl.gz") as file:
        lines = list(islice(file, 5))
    log = tmp_path / "text.jsonl"
    log.write_bytes(b"".join(lines))
    report = shown(log, "--model=smollm2-135m")
    # 30 layers × 3 heads of K and V × 64 × 2 bytes, twice.
    assert report["bytes_per_token"] == 2 * 30 * 3 * 64 * 2
    tokenizers = pytest.importorskip("tokenizers")
    folder = next((model_data_dir / "models").glob("smollm2-135m-*/tokenizer.json"))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder))
    num_tokens = sum(len(tokenizer.encode(json.loads(line)["input"]).ids) for line in lines)
    # A role or two more may stand in a prompt than in the text alone.
    assert report["num_prompt_tokens"] == pytest.approx(num_tokens, abs=10 * len(lines))
    assert not any("estimated" in note for note in report["notes"])


def test_a_sample_of_a_real_trace_is_near_to_the_whole(traces: Path) -> None:
    args = (traces / "mooncake/conversation_trace.jsonl", f"--tier=disk={10_000 * BLOCK_BYTES}")
    whole, sample = shown(*args), shown(*args, "--sample=25%")
    assert sample["sample"]["rate"] == 0.25
    assert sample["tiers"][0]["total_ratio"] == pytest.approx(whole["tiers"][0]["total_ratio"], abs=0.01)
    small = shown(*args, "--sample=0.5%")
    assert any("hundredths" in note for note in small["notes"])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.jsonl"
    rows = [{"at": i * 10.0, "num_tokens": 48, "blocks": [[i % 3 * 10, 3]]} for i in range(30)]
    head = {"form": "openclaw-cache-trace", "block_tokens": 16}
    file.write_text("\n".join(json.dumps(row) for row in [head, *rows]))
    return file


def test_the_table_says_what_each_tier_finds_and_what_is_assumed(small: Path) -> None:
    result = run(
        small,
        "--tier=device=100B",
        "--tier=host=20kB",
        "--bytes-per-token=100",
        "--policy=lru",
        "--policy=agent",
    )
    assert result.exit_code == 0, result.output
    # 9 blocks of 1,600 bytes fit into the host: all that comes again is found, 81 of 90 blocks.
    assert "0.900 of the prompt tokens can be found at all" in result.output
    assert "device" in result.output
    assert "exact, one pass" in result.output
    assumed = run(small)
    assert "131,072 bytes of KV a token are assumed" in assumed.output
    known = shown(small, "--model=Llama-3.1-8B")
    assert (known["bytes_per_token"], known["notes"]) == (131_072, [])


def test_costs_and_savings(small: Path) -> None:
    report = shown(
        small, "--tier=host=20kB", "--bytes-per-token=100", "--room-price=host=1000000", "--token-price=1000000",
        "--prefill-speed=10",
    )  # fmt: skip
    (host,) = report["tiers"]
    assert host["room_dollars_a_month"] == pytest.approx(20)
    # 81 blocks of 16 tokens, a dollar each, in 290 s.
    assert host["saved_dollars"] == pytest.approx(1296)
    assert host["saved_s"] == pytest.approx(129.6)
    assert host["saved_dollars_a_month"] == pytest.approx(1296 * 730 * 3600 / 290)
    assert report["room_prices"]["host"] == {"dollars_per_gb_month": 1_000_000, "source": "as given"}


def test_pictures_are_real_and_name_their_axes(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png, svg = tmp_path / "curve.png", tmp_path / "curve.svg"
    args = (small, "--bytes-per-token=100", "--tier=host=10kB", "--policy=lru", "--policy=s3fifo")
    assert run(*args, "--plot", png).exit_code == 0
    head = png.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert width >= 800
    assert height >= 400
    assert run(*args, "--plot", svg).exit_code == 0
    texts = " ".join("".join(one.itertext()) for one in ET.parse(svg).iter() if one.tag.endswith("text"))
    for word in ("capacity", "hit ratio", "lru", "s3fifo", "host", "small.jsonl"):
        assert word in texts


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--policy=fifo"], "--policy: there is no 'fifo'"),
        (["--tier=gpu=8GB"], "--tier: 'gpu=8GB'"),
        (["--tier=host"], "--tier: 'host'"),
        (["--tier=host=8XB"], "--tier: '8XB' is not a size"),
        (["--tier=host=1GB", "--tier=host=2GB"], "--tier: host is given twice"),
        (["--sample=0"], "--sample: 0 leaves nothing"),
        (["--sample=some"], "--sample: 'some' is not a share"),
        (["--write=up"], "--write: 'up'"),
        (["--model=nothing-7b"], "--model: model 'nothing-7b'"),
        (["--bytes-per-token=0"], "--bytes-per-token: it must be more than 0"),
        (["--room-price=host=much"], "--room-price: 'much' is no price"),
        (["--max-gap=soon"], "--max-gap: 'soon' is not a duration"),
        (["--plot=curve.jpg"], "--plot: curve.jpg must end in .png or .svg"),
        (["--plot=/no/such/folder/curve.png"], "--plot: there is no folder"),
    ],
)
def test_a_wrong_option_is_named(small: Path, args: list[str], why: str) -> None:
    result = run(small, *args)
    assert result.exit_code == 2
    assert why in result.stderr
    assert "Traceback" not in result.output


def test_a_trace_that_cannot_be_read_is_named_with_line_and_field(traces: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    with (traces / "mooncake/conversation_trace.jsonl").open("rb") as file:
        lines = list(islice(file, 50))
    lines[29] = lines[29].replace(b'"input_length": ', b'"input_length": "x", "was": ')
    broken.write_bytes(b"".join(lines))
    result = run(broken)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "broken.jsonl:30: input_length: " in result.stderr
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(b"".join(islice(lines, 29)) * 50)[:-20])
    assert "cannot read" in run(torn).stderr
    for name, why in (
        ("azure/AzureLLMInferenceTrace_conv.csv", "only times and lengths"),
        ("ragpulse/0_trace.jsonl", "components of prompts"),
        ("ragpulse/1_sys_prompt.jsonl", "no request is in it (line 1: "),
    ):
        result = run(traces / name)
        assert result.exit_code == 2
        assert why in result.stderr
        assert name in result.stderr


@pytest.mark.parametrize("content", [b"", b"\n\n", b"not json\n", b"{}\n", b"[]", b"\x00\x01\x02"])
def test_a_file_without_requests_is_refused_with_what_is_known(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "empty"
    file.write_bytes(content)
    result = run(file)
    assert result.exit_code == 2
    assert "Mooncake" in result.stderr
    assert run(tmp_path / "absent").exit_code == 2
