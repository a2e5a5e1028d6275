from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.engine.chat import TokenLogprob
from openclaw_cache.engine.text import StopMatcher, TextStream

LETTERS = st.text("abc", max_size=30)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)


def shown(matcher: StopMatcher, pieces: list[str]) -> str:
    text = "".join(matcher.feed(piece) for piece in pieces)
    return text + matcher.flush()


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def before_first_stop(text: str, stops: list[str]) -> str:
    """The rule itself, slowly: read on letter by letter until some stop sequence is complete."""
    for end in range(1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            return text[: end - len(max(ended, key=len))]
    return text


@given(LETTERS, STOPS, st.lists(st.integers(0, 30), max_size=8))
def test_text_is_shown_up_to_the_first_stop_however_it_is_cut(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    assert shown(StopMatcher(stops), pieces_of(text, cuts)) == before_first_stop(text, stops)


@given(LETTERS, STOPS)
def test_no_part_of_a_stop_sequence_is_shown_early(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    so_far = ""
    for letter in text:
        so_far += matcher.feed(letter)
        assert before_first_stop(text, stops).startswith(so_far)


def test_a_stop_across_pieces_is_cut_out_and_nothing_follows_it() -> None:
    matcher = StopMatcher(["END", "\n\n"])
    assert [matcher.feed(piece) for piece in ["one E", "N", "D two", " three"]] == ["one ", "", "", ""]
    assert matcher.stopped
    assert matcher.flush() == ""


def test_a_false_beginning_of_a_stop_is_shown_as_soon_as_it_is_known() -> None:
    matcher = StopMatcher(["END"])
    assert [matcher.feed(piece) for piece in ["E", "N", "TRY"]] == ["", "", "ENTRY"]
    assert not matcher.stopped


def test_text_without_stops_is_never_held_back() -> None:
    assert StopMatcher([]).feed("anything") == "anything"


def stream(words: dict[int, str | None], stops: list[str]) -> TextStream:
    return TextStream(words.get, stops)


def test_a_log_probability_is_shown_with_the_text_of_its_token() -> None:
    one, two = TokenLogprob("E", -0.5), TokenLogprob("X", -0.25)
    tokens = stream({1: "E", 2: "X"}, ["END"])
    assert tokens.add(1, one) == ("", ())
    assert tokens.add(2, two) == ("EX", (one, two))
    assert tokens.flush() == ("", ())


def test_log_probabilities_inside_a_stop_sequence_are_not_shown() -> None:
    logprobs = [TokenLogprob(text, -1.0) for text in ["a", "EN", "D"]]
    tokens = stream({1: "a", 2: "EN", 3: "D"}, ["END"])
    assert [tokens.add(i, logprob) for i, logprob in enumerate(logprobs, 1)] == [
        ("a", (logprobs[0],)),
        ("", ()),
        ("", ()),
    ]
    assert tokens.stopped
    assert tokens.flush() == ("", ())


def test_the_bytes_of_an_unfinished_character_are_dropped_but_their_tokens_are_not() -> None:
    half = TokenLogprob("\ufffd", -2.0)
    tokens = stream({1: None}, [])
    assert tokens.add(1, half) == ("", ())
    assert tokens.flush() == ("", (half,))
