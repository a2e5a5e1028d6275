"""RFC 9111, §1.2.2, §4.2.1, §5.2 and §5.2.1."""

import pytest

from openclaw_cache.gateway.policy import Control


def control(*lines: bytes) -> Control:
    return Control.parse([(b"accept", b"no-cache"), *((b"cache-control", line) for line in lines)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", Control()),
        (b"no-cache", Control(no_cache=True)),
        (b"NO-Store", Control(no_store=True)),
        (b"only-if-cached, max-age=60", Control(only_if_cached=True, max_age_s=60)),
        (b"max-age = 60 ,min-fresh=5", Control(max_age_s=60, min_fresh_s=5)),
        (b'max-age="60"', Control(max_age_s=60)),
        (b"max-age=0", Control(max_age_s=0)),
        (b"max-age", Control(max_age_s=0)),
        (b"max-age=soon", Control(max_age_s=0)),
        (b"max-age=-1", Control(max_age_s=0)),
        (b"max-age=1.5", Control(max_age_s=0)),
        (b"max-age=2147483648", Control(max_age_s=2147483648)),
        (b"max-age=99999999999999999999999999", Control(max_age_s=2147483648)),
        (b"max-age=10, max-age=20", Control(max_age_s=10)),
        (b"min-fresh=x", Control(min_fresh_s=2147483648)),
        (b"no-transform, max-stale=3, community=\"UCI\", x", Control()),
        (b'ext="a, no-store, \\" no-cache", max-age=1', Control(max_age_s=1)),
        (b"xno-cache, no-cachex, no_cache", Control()),
        (b",, ,no-cache,", Control(no_cache=True)),
        (b'"', Control()),
    ],
)  # fmt: skip
def test_directives_are_read_as_the_rfc_says(line: bytes, expected: Control) -> None:
    assert control(line) == expected


def test_several_lines_are_one_list() -> None:
    assert control(b"no-cache", b"max-age=5", b"no-store") == Control(
        no_cache=True, no_store=True, max_age_s=5
    )
    assert control() == Control()


def test_max_age_bounds_the_age_and_zero_wants_nothing_stored() -> None:
    assert Control(max_age_s=60).accepts(60.0, 1)
    assert not Control(max_age_s=60).accepts(60.5, 1)
    assert not Control(max_age_s=0).accepts(0.0, 1)
    assert Control().accepts(1e9, 0)


def test_min_fresh_wants_so_much_life_left() -> None:
    assert Control(min_fresh_s=10).accepts(5, 10.0)
    assert not Control(min_fresh_s=10).accepts(5, 9.9)
    assert not Control(max_age_s=4, min_fresh_s=10).accepts(5, 100)
