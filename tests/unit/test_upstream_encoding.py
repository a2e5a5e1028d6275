"""Bodies in content encodings, made by the encodings' own libraries."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import pytest

from openclaw_cache.gateway import encoding
from openclaw_cache.gateway.encoding import PIECE_BYTES, Decoder, EncodingError, undo

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, bare": bare_deflate,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
every_encoding = pytest.mark.parametrize("how", ENCODERS)
TEXT = "".join(f"{i} 東京 " for i in range(500)).encode()


def decoder(how: str) -> Decoder:
    found, stays = undo([(b"content-encoding", how.partition(",")[0].encode())])
    assert found is not None
    assert not stays
    return found


def pieces(found: Decoder, *inputs: bytes) -> Iterator[bytes]:
    for data in inputs:
        found.feed(data)
        while piece := found.take():
            yield piece
    found.check_whole()


@every_encoding
@pytest.mark.parametrize("plain", [b"", b"x", TEXT, random.Random(1).randbytes(100_000)], ids=len)
def test_a_body_comes_out_as_it_went_in(how: str, plain: bytes) -> None:
    assert b"".join(pieces(decoder(how), ENCODERS[how](plain))) == plain


@every_encoding
def test_a_body_may_be_cut_anywhere_on_its_way(how: str) -> None:
    packed = ENCODERS[how](TEXT)
    single = [packed[i : i + 1] for i in range(len(packed))]
    assert b"".join(pieces(decoder(how), *single)) == TEXT


@every_encoding
def test_a_body_that_ends_too_early_is_never_taken_for_a_whole_one(how: str) -> None:
    packed = ENCODERS[how](TEXT)
    for length in range(1, len(packed)):
        with pytest.raises(EncodingError, match="cut short"):
            list(pieces(decoder(how), packed[:length]))


@every_encoding
def test_an_empty_body_is_whole(how: str) -> None:
    assert list(pieces(decoder(how))) == []


@every_encoding
def test_each_part_comes_out_as_soon_as_it_was_flushed(how: str) -> None:
    def parts() -> Iterator[bytes]:
        if how == "br":
            packer = brotli.Compressor()
            for text in (b"first", b"second"):
                yield packer.process(text) + packer.flush()
        elif how == "zstd":
            frames = zstd.ZstdCompressor()
            for text in (b"first", b"second"):
                yield frames.compress(text, frames.FLUSH_BLOCK)
        else:
            bits = {"deflate": zlib.MAX_WBITS, "deflate, bare": -zlib.MAX_WBITS}.get(how, 16 + zlib.MAX_WBITS)
            stream = zlib.compressobj(wbits=bits)
            for text in (b"first", b"second"):
                yield stream.compress(text) + stream.flush(zlib.Z_SYNC_FLUSH)

    found, came = decoder(how), []
    for part in parts():
        found.feed(part)
        came.append(found.take())
    assert came == [b"first", b"second"]


@every_encoding
def test_bytes_that_are_not_in_the_encoding_are_refused(how: str) -> None:
    with pytest.raises(EncodingError):
        list(pieces(decoder(how), b"\xff\xfe this is plain text, and quite long for that"))


@every_encoding
def test_a_damaged_byte_never_passes_as_another_text(how: str) -> None:
    packed = bytearray(ENCODERS[how](TEXT))
    for i in range(0, len(packed), 7):
        damaged = bytes(packed[:i]) + bytes([packed[i] ^ 0x10]) + bytes(packed[i + 1 :])
        try:
            came = b"".join(pieces(decoder(how), damaged))
        except EncodingError:
            continue
        # Neither bare deflate nor brotli has a checksum, nor zstd by default; a header's flags are not covered.
        assert came == TEXT or how in ("deflate, bare", "br", "zstd") or i < 10


@every_encoding
def test_little_that_stands_for_much_comes_in_bounded_pieces(how: str) -> None:
    bomb = ENCODERS[how](bytes(50_000_000))
    assert len(bomb) < 50_000
    found, num_bytes = decoder(how), 0
    for piece in pieces(found, bomb):
        assert len(piece) <= 2 * PIECE_BYTES
        num_bytes += len(piece)
    assert num_bytes == 50_000_000


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_members_that_follow_one_another_are_one_body(how: str) -> None:
    packed = b"".join(ENCODERS[how](part) for part in (b"one ", b"", b"two ", b"three"))
    assert b"".join(pieces(decoder(how), packed)) == b"one two three"
    assert b"".join(pieces(decoder(how), packed[:30], packed[30:])) == b"one two three"


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_members_are_bounded(how: str) -> None:
    with pytest.raises(EncodingError, match="follows the end"):
        list(pieces(decoder(how), ENCODERS[how](b"") * (encoding.MAX_MEMBERS + 1)))


@every_encoding
@pytest.mark.parametrize("at_once", [True, False])
def test_what_follows_the_end_of_a_body_is_refused(how: str, at_once: bool) -> None:
    packed = ENCODERS[how](TEXT)
    inputs = [packed + b"more"] if at_once else [packed, b"more"]
    with pytest.raises(EncodingError):
        list(pieces(decoder(how), *inputs))


def test_a_window_beyond_the_8_mb_that_http_allows_is_refused() -> None:
    """RFC 9659 §3."""
    plain = random.Random(2).randbytes(20_000_000)

    def packed(window_log: int) -> bytes:
        options: dict[int, int] = {
            zstd.CompressionParameter.window_log: window_log,
            zstd.CompressionParameter.content_size_flag: 0,
        }
        packer = zstd.ZstdCompressor(options=options)
        return packer.compress(plain) + packer.flush()

    assert b"".join(pieces(decoder("zstd"), packed(23))) == plain
    with pytest.raises(EncodingError):
        list(pieces(decoder("zstd"), packed(24)))


@pytest.mark.parametrize("values", [[], [b"identity"], [b""], [b"identity, Identity"]])
def test_a_plain_body_needs_nothing(values: list[bytes]) -> None:
    assert undo([(b"content-encoding", value) for value in values]) == (None, False)


@pytest.mark.parametrize(
    "values", [[b"gzip, gzip"], [b"br", b"gzip"], [b"x-rot"], [b"compress"], [b"\xff"], [b"gzip;q=1"]]
)
def test_stacked_and_unknown_encodings_stay(values: list[bytes]) -> None:
    assert undo([(b"content-encoding", value) for value in values]) == (None, True)


@pytest.mark.parametrize("value", [b"GZip", b" gzip ", b"identity, gzip", b"gzip,"])
def test_an_encoding_is_known_in_any_spelling(value: bytes) -> None:
    found, stays = undo([(b"content-type", b"br"), (b"content-encoding", value)])
    assert found is not None
    assert (found.name, stays) == ("gzip", False)
