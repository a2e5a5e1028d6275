"""Cuts against grapheme clusters of Unicode UAX #29, spelled out by hand."""

import pytest

from openclaw_cache.dialects.pieces import pieces

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # three people joined by ZWJ
CHINA, WALES = (
    "\U0001f1e8\U0001f1f3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
)
E_ACUTE, THUMB, HEART, KEYCAP = "e\u0301", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3"
HAN, CRLF = "\u1112\u1161\u11ab", "\r\n"  # decomposed Hangul 한


@pytest.mark.parametrize("cluster", [FAMILY, CHINA, WALES, E_ACUTE, THUMB, HEART, KEYCAP, HAN, CRLF + "é"])
def test_no_cut_falls_into_a_cluster(cluster: str) -> None:
    # é at the end keeps CR LF out of the ASCII path; the cluster there is CR LF alone.
    cut = pieces(cluster * 10, len(cluster) + 1)
    assert "".join(cut) == cluster * 10
    if cluster.startswith(CRLF):
        assert not any(piece.endswith("\r") for piece in cut)
    else:
        assert cut == [cluster] * 10


def test_flags_are_cut_between_pairs_only() -> None:
    assert pieces(CHINA * 4, 5) == [CHINA * 2, CHINA * 2]


def test_cluster_longer_than_a_piece_is_cut_between_code_points() -> None:
    zalgo = "a" + "\u0301" * 500
    cut = pieces(zalgo, 100)
    assert "".join(cut) == zalgo
    assert max(map(len, cut)) == 100


def test_plain_text_is_cut_at_the_size() -> None:
    assert pieces("abcdefg", 3) == ["abc", "def", "g"]
    assert pieces("你好世界", 3) == ["你好世", "界"]
    assert pieces("", 3) == []
