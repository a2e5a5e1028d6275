"""How K and V become the bytes of the host and disk tiers, and back.

A block's bytes ("payload") are its layers one after the other. A layer of a block is K, then V, each
[block_tokens, num_kv_heads, head_dim]; `int8` is followed by its scales.

So that a hit equals a miss, K and V are rounded to the codec's `exact_dtype` before attention, cached or not;
storing them in that dtype then loses nothing.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, astuple, dataclass, fields
from typing import TYPE_CHECKING, Final, Literal, get_args

import torch
import xxhash

from openclaw_cache.errors import OpenClawCacheError

if TYPE_CHECKING:
    from torch import Tensor

    from openclaw_cache.kv.hashing import ModelIdentity

ORDER: Final = "layer,kv,token,head,dim"
"""The order of a payload's values, as headers and model identities name it."""

Kind = Literal["fp32", "fp16", "bf16", "int8"]

_EXACT_DTYPES: Final[dict[Kind, torch.dtype]] = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.float16,
}
_MAGIC: Final = b"openclaw-kv\n"
_VERSION: Final = 1
_CHECKSUM_BYTES: Final = 8
_SCALE_BYTES: Final = 2
_MAX_Q: Final = 127
_MAX_SCALE: Final = 515.5


class CodecError(OpenClawCacheError):
    """Stored bytes are not what this codec writes. The message names the field that differs."""


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The shape of a model's KV: every layer has K and V of [tokens, num_kv_heads, head_dim]."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    block_tokens: int

    def __post_init__(self) -> None:
        if min(self.num_layers, self.num_kv_heads, self.head_dim, self.block_tokens) < 1:
            raise ValueError(f"a KV layout has no zero sides: {self}")


class Codec:
    """Encodes and decodes the blocks of one layout.

    Attributes:
        kind: its name in settings and headers.
        layout: the model's.
        exact_dtype: to which K and V are rounded before attention and before they are stored.
        is_lossy: whether decoding gives other values than were encoded.
        layer_bytes: size of one layer of a block; even.
        block_bytes: size of a block.
    """

    __slots__ = ("block_bytes", "exact_dtype", "is_lossy", "kind", "layer_bytes", "layout")

    def __init__(self, kind: Kind, layout: KvLayout) -> None:
        if kind not in _EXACT_DTYPES:
            raise ValueError(f"no codec {kind!r}; there are {', '.join(get_args(Kind))}")
        self.kind: Final = kind
        self.layout: Final = layout
        self.exact_dtype: Final = _EXACT_DTYPES[kind]
        self.is_lossy: Final = kind == "int8"
        if kind == "int8":
            num_scales = layout.num_kv_heads * (layout.head_dim + layout.block_tokens)
            self.layer_bytes: int = 2 * self._num_values + num_scales * _SCALE_BYTES
        else:
            self.layer_bytes = 2 * self._num_values * self.exact_dtype.itemsize
        self.block_bytes: int = layout.num_layers * self.layer_bytes

    @property
    def _num_values(self) -> int:
        """Values of one layer's K in a block."""
        return self.layout.block_tokens * self.layout.num_kv_heads * self.layout.head_dim

    def round(self, t: Tensor) -> Tensor:
        """The values of `t` rounded to `exact_dtype`, in t's own dtype; `t` itself where that loses nothing.

        What is too large becomes the largest value that both dtypes hold (65504 for fp16), not infinity: one
        infinite score turns the whole softmax into NaN, while a saturated one stays a very large score. NaN
        stays NaN.
        """
        if self.exact_dtype in (t.dtype, torch.float32):
            return t
        bound = _common_max(t.dtype, self.exact_dtype)
        return t.to(self.exact_dtype).clamp_(-bound, bound).to(t.dtype)

    def encode_layer(self, kv: Tensor, out: Tensor) -> None:
        """Write one layer of n blocks into `out`.

        Args:
            kv: [2, n, block_tokens, num_kv_heads, head_dim], any float dtype, values as `round` gives them.
            out: uint8 [n, layer_bytes]; may be a column slice of the blocks' payloads.

        The exact codecs keep NaN and infinity as they are; `int8` has no room for them and stores NaN as 0,
        infinity and what is beyond 65504 as 65504.

        Effects: fills `out`. Cost: O(n); 2-4 µs per token for the 30 layers of SmolLM2; int8 14 µs and two
        temporaries of kv's size.
        """
        if self.kind == "int8":
            self._encode_int8(kv, out)
        else:
            self._values(out).copy_(kv)

    def decode_layer(self, raw: Tensor, out: Tensor) -> None:
        """Read what `encode_layer` wrote: uint8 [n, layer_bytes] into `out` [2, n, block_tokens, heads, dim].

        Effects: fills `out`, which may be any float dtype and a slice of the arena. `int8` gives whole steps of
        its scale, not rounded to halves. Any bytes decode to something: damage is found by their checksum.
        Cost: O(n); 2-5 µs per token for the 30 layers of SmolLM2.
        """
        if self.kind == "int8":
            self._decode_int8(raw, out)
        else:
            out.copy_(self._values(raw))

    def _values(self, raw: Tensor) -> Tensor:
        """A view [2, n, B, H, D] of an exact codec's bytes [n, layer_bytes]."""
        return raw.view(self.exact_dtype).view(self._shape(raw.shape[0], 2)).transpose(0, 1)

    def _shape(self, *leading: int) -> tuple[int, ...]:
        return (*leading, self.layout.block_tokens, self.layout.num_kv_heads, self.layout.head_dim)

    def _int8_parts(self, raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views of an int8 layer: values int8 [2, n, B, H, D], scales of K [n, 1, H, D] and of V [n, B, H, 1]."""
        num, (_, heads, dim, tokens) = raw.shape[0], astuple(self.layout)
        values_end, scales_end = 2 * self._num_values, 2 * self._num_values + heads * dim * _SCALE_BYTES
        values = raw[:, :values_end].view(torch.int8).view(self._shape(num, 2)).transpose(0, 1)
        of_keys = raw[:, values_end:scales_end].view(torch.float16).view(num, 1, heads, dim)
        of_values = raw[:, scales_end:].view(torch.float16).view(num, tokens, heads, 1)
        return values, of_keys, of_values

    def _encode_int8(self, kv: Tensor, out: Tensor) -> None:
        """K per channel over the block's tokens, V per token, as in KIVI: K has outlier channels, V has none.

        Source: Liu et al., "KIVI: a tuning-free asymmetric 2bit quantization for KV cache", ICML 2024
            (arXiv 2402.02750), with 8 bits and symmetric.
        """
        kv = kv.float().nan_to_num(0.0, 65504.0, -65504.0).clamp_(-65504.0, 65504.0)
        values, *scales = self._int8_parts(out)
        for exact, stored, scale, dim in zip(kv, values, scales, (1, 3), strict=True):
            # Not vector_norm(inf), which is thirty times slower here.
            steps = _scales(exact.abs().amax(dim, keepdim=True))
            scale.copy_(steps)
            # Zero scales belong to zero values: any divisor gives their 0.
            stored.copy_(exact.div_(steps.float().clamp_min_(2.0**-24)).round_())

    def _decode_int8(self, raw: Tensor, out: Tensor) -> None:
        values, *scales = self._int8_parts(raw)
        for stored, scale, target in zip(values, scales, out, strict=True):
            target.copy_(stored).mul_(scale.to(target.device))


def _common_max(one: torch.dtype, other: torch.dtype) -> float:
    """The largest number that two float dtypes both hold exactly."""
    a, b = torch.finfo(one), torch.finfo(other)
    _, exponent = math.frexp(min(a.max, b.max))
    return math.ldexp(2.0 - max(a.eps, b.eps), exponent - 1)


def _scales(largest: Tensor) -> Tensor:
    """The fp16 steps of which the largest magnitudes are 127 or just less: rounded up, so nothing is clipped."""
    scales = (largest / _MAX_Q).half()
    # The next half above a non-negative one is the next integer above its bits.
    scales.view(torch.int16).add_(scales.float() * _MAX_Q < largest)
    # Of the largest halves only: 127 times the scale must not pass 65504 when it is decoded.
    return scales.clamp_max_(_MAX_SCALE)


@dataclass(frozen=True, slots=True)
class Header:
    """What stored blocks are: enough to read them, and to refuse them.

    Attributes:
        version: of the format.
        codec: kind of codec.
        order: of a payload's values.
        byte_order: of each value.
        num_layers, num_kv_heads, head_dim, block_tokens: the layout.
        layer_bytes: size of one layer of a block.
        identity: digest of the model's identity, in hex.
    """

    version: int
    codec: str
    order: str
    byte_order: str
    num_layers: int
    num_kv_heads: int
    head_dim: int
    block_tokens: int
    layer_bytes: int
    identity: str

    @classmethod
    def of(cls, identity: ModelIdentity, codec: Codec) -> Header:
        """The header of blocks that this process writes."""
        return cls(
            version=_VERSION,
            codec=codec.kind,
            order=ORDER,
            byte_order=sys.byteorder,
            **asdict(codec.layout),
            layer_bytes=codec.layer_bytes,
            identity=identity.digest().hex(),
        )

    def check(self, identity: ModelIdentity, codec: Codec) -> None:
        """Refuse blocks that are not of this model and codec.

        Raises:
            CodecError: naming the first field that differs.
        """
        expected = Header.of(identity, codec)
        for field in fields(self):
            found, wanted = getattr(self, field.name), getattr(expected, field.name)
            if found != wanted:
                raise CodecError(f"stored blocks have {field.name} {found!r}, this model needs {wanted!r}")


def pack_header(identity: ModelIdentity, codec: Codec) -> bytes:
    """The header as bytes: magic, JSON in one line, checksum. Equal arguments give equal bytes."""
    text = json.dumps(asdict(Header.of(identity, codec)), sort_keys=True, separators=(",", ":"))
    signed = _MAGIC + text.encode() + b"\n"
    return signed + checksum(signed).to_bytes(_CHECKSUM_BYTES, "little")


def parse_header(data: bytes) -> Header:
    """Read what `pack_header` wrote; `Header.check` then compares it.

    Raises:
        CodecError: `data` is anything else; the message says which part (magic, checksum, version, a field).
    """
    signed, stored = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if not signed.startswith(_MAGIC):
        raise CodecError("magic: these bytes are no KV header")
    if checksum(signed) != int.from_bytes(stored, "little"):
        raise CodecError("checksum: the KV header is damaged")
    try:
        found = json.loads(signed[len(_MAGIC) :])
    except (ValueError, RecursionError) as error:
        raise CodecError("fields: the KV header is not JSON") from error
    version = found.get("version") if isinstance(found, dict) else None
    if version != _VERSION:
        raise CodecError(f"version: the KV header has version {version!r}, this program reads {_VERSION}")
    for field in fields(Header):
        if type(found.get(field.name)).__name__ != field.type:
            raise CodecError(
                f"{field.name}: the KV header has {found.get(field.name)!r} instead of {field.type}"
            )
    return Header(**{field.name: found[field.name] for field in fields(Header)})


def checksum(data: bytes | bytearray | memoryview) -> int:
    """xxh3_64 of a contiguous buffer (`array.data` of an array): finds accidents, not forgeries.

    Cost: O(bytes).
    """
    return xxhash.xxh3_64_intdigest(data)
