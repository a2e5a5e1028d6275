"""The prefix indexes under random prompts, for as long as the knob says (see `fuzz.prefixes` for a million of them)."""

from __future__ import annotations

from fuzz.knob import Knob
from fuzz.prefixes import World


def test_no_block_is_found_for_other_tokens_another_salt_or_adapter() -> None:
    knob, num_prompts = Knob("prefixes", default_s=4.0), 0
    for number in knob.numbers():
        world = World(knob.random(number))
        try:
            for _ in range(300):
                world.step()
            world.check_integrity()
        except Exception as error:
            raise AssertionError(knob.how_to_repeat(number)) from error
        num_prompts += 300
    print(f"{num_prompts} prompts")
