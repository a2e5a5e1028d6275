"""The codec: exact where it says so, bounded error where not, and no foreign bytes taken for our own."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import xxhash

from openclaw_cache.kv.codec import (
    ORDER,
    Codec,
    CodecError,
    Header,
    Kind,
    KvLayout,
    checksum,
    pack_header,
    parse_header,
)
from openclaw_cache.kv.hashing import ModelIdentity

SMOLLM2 = KvLayout(num_layers=30, num_kv_heads=3, head_dim=64, block_tokens=16)
SMALL = KvLayout(num_layers=2, num_kv_heads=3, head_dim=8, block_tokens=4)
IDENTITY = ModelIdentity(fingerprint="f" * 64, kv_dtype="fp16", layout=ORDER, rope="default:10000")
EXACT: list[tuple[Kind, torch.dtype]] = [
    ("fp32", torch.float32),
    ("fp16", torch.float16),
    ("bf16", torch.bfloat16),
]


def random_kv(layout: KvLayout, num_blocks: int, scale: float = 1.0) -> torch.Tensor:
    shape = (2, num_blocks, layout.block_tokens, layout.num_kv_heads, layout.head_dim)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)) * scale


def round_trip(codec: Codec, kv: torch.Tensor) -> torch.Tensor:
    raw = torch.zeros(kv.shape[1], codec.layer_bytes, dtype=torch.uint8)
    out = torch.empty_like(kv)
    codec.encode_layer(kv, raw)
    codec.decode_layer(raw, out)
    return out


def bits(t: torch.Tensor) -> np.ndarray:
    return t.contiguous().view(torch.uint8).numpy()


@pytest.mark.parametrize(
    ("kind", "layer_bytes", "block_bytes"),
    [
        # 2 (K, V) x 16 tokens x 3 heads x 64 = 6,144 values in a layer.
        ("fp32", 24_576, 737_280),
        ("fp16", 12_288, 368_640),
        ("bf16", 12_288, 368_640),
        # One byte each, and 3 x 64 channel scales and 16 x 3 token scales of 2 bytes: 6,144 + 480.
        ("int8", 6_624, 198_720),
    ],
)
def test_a_block_of_smollm2_has_the_size_that_arithmetic_gives(
    kind: Kind, layer_bytes: int, block_bytes: int
) -> None:
    codec = Codec(kind, SMOLLM2)
    assert (codec.layer_bytes, codec.block_bytes) == (layer_bytes, block_bytes)


def test_only_int8_is_lossy_and_runs_on_halves() -> None:
    assert [(kind, Codec(kind, SMALL).is_lossy) for kind in ("fp32", "fp16", "bf16", "int8")] == [
        ("fp32", False),
        ("fp16", False),
        ("bf16", False),
        ("int8", True),
    ]
    assert [Codec(kind, SMALL).exact_dtype for kind, _ in EXACT] == [dtype for _, dtype in EXACT]
    assert Codec("int8", SMALL).exact_dtype == torch.float16


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16"])
def test_rounded_values_come_back_bit_for_bit(kind: Kind) -> None:
    codec = Codec(kind, SMALL)
    kv = random_kv(SMALL, 5, scale=100.0)
    kv.view(-1)[:7] = torch.tensor([0.0, -0.0, 2.0**-24, -65504.0, 1e9, math.nan, math.inf])
    kv = codec.round(kv)
    assert (bits(round_trip(codec, kv)) == bits(kv)).all()


@pytest.mark.parametrize(("kind", "dtype"), EXACT)
def test_a_device_of_the_exact_dtype_loses_nothing_either(kind: Kind, dtype: torch.dtype) -> None:
    kv = random_kv(SMALL, 3).to(dtype)
    assert (bits(round_trip(Codec(kind, SMALL), kv)) == bits(kv)).all()


def test_a_layer_holds_keys_then_values_token_by_token() -> None:
    codec = Codec("fp16", SMALL)
    kv = torch.arange(2 * 2 * 4 * 3 * 8, dtype=torch.float32).reshape(2, 2, 4, 3, 8)
    raw = torch.zeros(2, codec.layer_bytes, dtype=torch.uint8)
    codec.encode_layer(kv, raw)
    read = np.frombuffer(raw.numpy().tobytes(), "<f2").reshape(2, 2, 4, 3, 8)
    assert (read == kv.numpy().transpose(1, 0, 2, 3, 4)).all()


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "int8"])
def test_a_column_of_the_payloads_and_a_slice_of_the_arena_are_written_in_place(kind: Kind) -> None:
    codec = Codec(kind, SMALL)
    arena = codec.round(random_kv(SMALL, 12)).repeat(2, 1, 1, 1, 1).view(2, 2, 12, 4, 3, 8)
    kv = arena[1, :, 3:8]
    assert not kv.is_contiguous()
    payload = torch.full((5, codec.block_bytes), 0xAA, dtype=torch.uint8)
    column = payload[:, codec.layer_bytes :]
    codec.encode_layer(kv, column)
    whole = torch.zeros(5, codec.layer_bytes, dtype=torch.uint8)
    codec.encode_layer(kv.contiguous(), whole)
    assert torch.equal(column, whole)
    assert (payload[:, : codec.layer_bytes] == 0xAA).all()

    target = torch.full_like(arena, 9.0)
    codec.decode_layer(column, target[0, :, 1:6])
    assert torch.equal(target[0, :, 1:6], round_trip(codec, kv.contiguous()))
    untouched = torch.ones_like(target, dtype=torch.bool)
    untouched[0, :, 1:6] = False
    assert (target[untouched] == 9.0).all()


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "int8"])
def test_blocks_are_encoded_independently_of_their_neighbours(kind: Kind) -> None:
    codec = Codec(kind, SMALL)
    kv = random_kv(SMALL, 4)
    together = torch.zeros(4, codec.layer_bytes, dtype=torch.uint8)
    codec.encode_layer(kv, together)
    alone = torch.zeros(1, codec.layer_bytes, dtype=torch.uint8)
    codec.encode_layer(kv[:, 2:3], alone)
    assert torch.equal(together[2], alone[0])


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "int8"])
def test_no_blocks_are_no_bytes(kind: Kind) -> None:
    assert round_trip(Codec(kind, SMALL), random_kv(SMALL, 0)).shape == (2, 0, 4, 3, 8)


def test_rounding_gives_the_nearest_value_of_the_exact_dtype() -> None:
    t = torch.tensor([1.0, 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 1 / 3, -2049.0])
    # Ties go to the even neighbour; 1/3 is 0x3555 as a half and 0x3eab as a bfloat16.
    assert Codec("fp16", SMALL).round(t).tolist() == [1.0, 1.0, 1.0 + 2.0**-9, 0.333251953125, -2048.0]
    assert Codec("bf16", SMALL).round(t).tolist() == [1.0, 1.0, 1.0, 0.333984375, -2048.0]
    assert Codec("fp32", SMALL).round(t) is t
    assert Codec("int8", SMALL).round(t).dtype == torch.float32


@pytest.mark.parametrize(
    ("kind", "dtype", "largest"),
    [
        ("fp16", torch.float32, 65504.0),
        ("int8", torch.float32, 65504.0),
        ("bf16", torch.float32, 255 * 2.0**120),
        # 65504 is not a bfloat16: its 8 bits of precision end at 255 x 2^8.
        ("fp16", torch.bfloat16, 65280.0),
        ("bf16", torch.float16, 65280.0),
    ],
)
def test_what_is_too_large_saturates_and_stays_finite(kind: Kind, dtype: torch.dtype, largest: float) -> None:
    codec = Codec(kind, SMALL)
    over = torch.tensor(
        [torch.finfo(dtype).max, -torch.finfo(dtype).max, math.inf, -math.inf, math.nan], dtype=dtype
    )
    rounded = codec.round(over)
    assert rounded.dtype == dtype
    assert rounded[:4].tolist() == [largest, -largest, largest, -largest]
    assert rounded[4].isnan()
    assert torch.equal(codec.round(rounded)[:4], rounded[:4])
    assert torch.equal(rounded[:4].to(codec.exact_dtype).to(dtype), rounded[:4])


def int8_scales(kv: np.ndarray, axis: int) -> np.ndarray:
    """Largest magnitude over `axis` / 127, at half precision, never below the exact quotient."""
    exact = np.abs(kv.astype(np.float64)).max(axis=axis, keepdims=True) / 127
    nearest = exact.astype(np.float16)
    return np.where(nearest.astype(np.float64) < exact, np.nextafter(nearest, np.float16(np.inf)), nearest)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 2000.0])
def test_int8_is_off_by_at_most_half_a_step_per_channel_of_keys_and_per_token_of_values(scale: float) -> None:
    codec = Codec("int8", SMOLLM2)
    kv = random_kv(SMOLLM2, 6, scale)
    kv[0, ..., 5] *= 30.0  # an outlier channel, as keys have them
    kv = codec.round(kv)
    error = np.abs(round_trip(codec, kv).numpy().astype(np.float64) - kv.numpy())
    # [n, B, H, D]: keys share a scale over the tokens, values over the channels.
    for part, axis in ((0, 1), (1, 3)):
        step = int8_scales(kv[part].numpy(), axis).astype(np.float64)
        assert (error[part] <= step / 2 * (1 + 1e-6)).all()
    assert error.max() > 0


def test_an_outlier_channel_of_keys_costs_the_others_nothing() -> None:
    codec = Codec("int8", SMALL)
    kv = random_kv(SMALL, 2)
    loud = kv.clone()
    loud[0, ..., 3] = 60000.0
    quiet_again, loud_again = round_trip(codec, kv), round_trip(codec, loud)
    others = [channel for channel in range(8) if channel != 3]
    assert torch.equal(quiet_again[0][..., others], loud_again[0][..., others])


def test_int8_stores_zero_tiny_and_huge_ranges() -> None:
    codec = Codec("int8", SMALL)
    assert torch.equal(round_trip(codec, torch.zeros(2, 1, 4, 3, 8)), torch.zeros(2, 1, 4, 3, 8))
    tiny = torch.full((2, 1, 4, 3, 8), 2.0**-24)
    assert torch.equal(round_trip(codec, tiny), tiny)
    huge = torch.full((2, 1, 4, 3, 8), -65504.0)
    # 65504 / 127 = 515.8 lies between the halves 515.5 and 516; 127 x 516 would be infinite as a half.
    assert torch.equal(round_trip(codec, huge), torch.full_like(huge, -127 * 515.5))
    assert round_trip(codec, huge.half()).isfinite().all()


def test_int8_takes_nan_for_zero_and_infinity_for_the_largest_half() -> None:
    codec = Codec("int8", SMALL)
    kv = random_kv(SMALL, 2)
    odd, plain = kv.clone(), kv.clone()
    odd[:, 0, 1, 2, 3], plain[:, 0, 1, 2, 3] = math.nan, 0.0
    odd[:, 1, 1, 2, 3], plain[:, 1, 1, 2, 3] = -math.inf, -65504.0
    odd[:, 1, 2, 2, 3], plain[:, 1, 2, 2, 3] = 1e30, 65504.0
    assert torch.equal(round_trip(codec, odd), round_trip(codec, plain))
    assert odd[0, 0, 1, 2, 3].isnan()  # the caller's tensor is not touched


def test_int8_decodes_onto_a_device_of_halves() -> None:
    codec = Codec("int8", SMALL)
    kv = random_kv(SMALL, 2).half()
    assert torch.allclose(round_trip(codec, kv), kv, atol=0.03)


@pytest.mark.parametrize("sides", [(0, 3, 64, 16), (30, 3, 64, -1)])
def test_a_layout_without_extent_is_refused(sides: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="KvLayout"):
        KvLayout(*sides)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="no codec 'fp8'; there are fp32, fp16, bf16, int8"):
        Codec("fp8", SMALL)  # type: ignore[arg-type]


def test_a_header_says_what_the_blocks_are() -> None:
    header = parse_header(pack_header(IDENTITY, Codec("int8", SMOLLM2)))
    assert header == Header(
        version=1,
        codec="int8",
        order="layer,kv,token,head,dim",
        byte_order="little",
        num_layers=30,
        num_kv_heads=3,
        head_dim=64,
        block_tokens=16,
        layer_bytes=6_624,
        identity=IDENTITY.digest().hex(),
    )
    header.check(IDENTITY, Codec("int8", SMOLLM2))


def test_equal_arguments_give_equal_header_bytes() -> None:
    codec = Codec("fp16", SMOLLM2)
    assert pack_header(IDENTITY, codec) == pack_header(replace(IDENTITY), Codec("fp16", replace(SMOLLM2)))


def test_any_changed_added_or_missing_byte_of_a_header_is_found() -> None:
    packed = pack_header(IDENTITY, Codec("fp16", SMOLLM2))
    for index in range(len(packed)):
        for flip in (0x01, 0x80):
            damaged = packed[:index] + bytes([packed[index] ^ flip]) + packed[index + 1 :]
            with pytest.raises(CodecError, match=r"magic|checksum"):
                parse_header(damaged)
        with pytest.raises(CodecError, match=r"magic|checksum"):
            parse_header(packed[:index])
    with pytest.raises(CodecError, match="checksum"):
        parse_header(packed + b"\0")


@pytest.mark.parametrize(
    ("field", "identity", "codec"),
    [
        ("codec", IDENTITY, Codec("bf16", SMALL)),
        ("num_layers", IDENTITY, Codec("fp16", replace(SMALL, num_layers=3))),
        ("num_kv_heads", IDENTITY, Codec("fp16", replace(SMALL, num_kv_heads=4))),
        ("head_dim", IDENTITY, Codec("fp16", replace(SMALL, head_dim=16))),
        ("block_tokens", IDENTITY, Codec("fp16", replace(SMALL, block_tokens=32))),
        ("identity", replace(IDENTITY, adapter="lora"), Codec("fp16", SMALL)),
    ],
)
def test_blocks_of_another_model_are_refused_by_the_field_that_differs(
    field: str, identity: ModelIdentity, codec: Codec
) -> None:
    header = parse_header(pack_header(IDENTITY, Codec("fp16", SMALL)))
    with pytest.raises(CodecError, match=f"have {field} "):
        header.check(identity, codec)


def signed(text: bytes) -> bytes:
    whole = b"openclaw-kv\n" + text
    return whole + xxhash.xxh3_64_intdigest(whole).to_bytes(8, "little")


def test_a_well_signed_header_of_another_form_is_refused_by_name() -> None:
    good = json.loads(pack_header(IDENTITY, Codec("fp16", SMALL))[12:-8])
    parse_header(signed(json.dumps(good).encode()))
    cases = [
        ("fields", b"\xff"),
        ("fields", b"[" * 100_000),
        ("version", b"[]"),
        ("version", json.dumps(good | {"version": 2}).encode()),
        ("head_dim", json.dumps(good | {"head_dim": "8"}).encode()),
        ("head_dim", json.dumps(good | {"head_dim": True}).encode()),
        ("identity", json.dumps({name: good[name] for name in good if name != "identity"}).encode()),
    ]
    for name, text in cases:
        with pytest.raises(CodecError, match=f"^{name}: "):
            parse_header(signed(text))


def test_the_checksum_is_xxh3_64() -> None:
    # Of the empty input: the value in the reference implementation's own sanity test (seed 0).
    assert checksum(b"") == 0x2D06800538D394C2
    data = np.arange(256, dtype=np.uint8)
    assert checksum(data.data) == checksum(bytes(range(256))) == checksum(bytearray(range(256)))


def test_any_flipped_bit_of_a_layer_changes_its_checksum() -> None:
    layer = bytearray(np.random.default_rng(3).bytes(256))
    right = checksum(layer)
    for bit in range(8 * len(layer)):
        layer[bit // 8] ^= 1 << bit % 8
        assert checksum(layer) != right
        layer[bit // 8] ^= 1 << bit % 8
