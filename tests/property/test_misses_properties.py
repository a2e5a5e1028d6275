"""The memory of misses against a plain one: whatever happened, it says what is nearest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.gateway.misses import Misses
from openclaw_cache.observe.record import MISSES
from openclaw_cache.types import Namespace

BODIES = [f"{i:016x}" for i in range(3)]
WAYS = [(namespace, epoch, header) for namespace in "ab" for epoch in "xy" for header in "h"]
"""Four: so many ways of one prompt are remembered."""

events = st.lists(
    st.tuples(
        st.sampled_from(["asked", "stored", "unstored"]),
        st.sampled_from(BODIES),
        st.sampled_from(WAYS),
        st.integers(1, 20),
    ),
    max_size=40,
)


def nearest(known: dict[tuple[str, str, str], float], way: tuple[str, str, str], now: float) -> str:
    """The rule in plain words: just this way, else another version, other headers, another namespace."""
    if way in known:
        until = known[way]
        fates = {0.0: "new", -1.0: "unstored"}
        return fates.get(until) or ("expired" if until <= now else "evicted")
    same = {other: until for other, until in known.items() if other[0] == way[0] and other[2] == way[2]}
    if any(until > 0 for until in same.values()):
        return "version"
    if same:
        return "unstored"
    return "namespace" if known else "new"


@given(events, st.sampled_from(BODIES), st.sampled_from(WAYS), st.integers(0, 25))
def test_what_it_says_is_what_a_plain_memory_says(
    happened: list[tuple[str, str, tuple[str, str, str], int]],
    body: str,
    way: tuple[str, str, str],
    now: int,
) -> None:
    misses = Misses()
    ids = {w: misses.way(Namespace(w[0]), [w[1].encode()], [(b"h", w[2].encode())]) for w in WAYS}
    known: dict[str, dict[tuple[str, str, str], float]] = {name: {} for name in BODIES}
    for what, name, one, until in happened:
        if what == "asked":
            misses.asked(name, ids[one])
            known[name][one] = 0.0
        elif what == "stored":
            misses.stored(name, ids[one], float(until))
            known[name][one] = float(until)
        else:
            misses.unstored(name, ids[one])
            if known[name].get(one, 0.0) <= 0:
                known[name][one] = -1.0
    said = misses.why(body, ids[way], float(now))
    assert said == nearest(known[body], way, float(now))
    assert said in MISSES
