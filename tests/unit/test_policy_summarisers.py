from typing import Any

import pytest

from openclaw_cache.gateway.summarisers import RULES, Summariser, find

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def system(text: Any) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_finds_its_prompt_where_the_agent_puts_it(rule: Summariser) -> None:
    prompt = f"\n  {rule.begins} and so on, for a long while."
    messages = {
        "system": [system(prompt), *CHAT],
        "first": [user(prompt)],
        "last": [system("You are an agent."), *CHAT, user(prompt)],
    }[rule.place]
    found = find(messages)
    assert found is not None
    assert found.begins == rule.begins


def test_text_parts_and_developer_messages_count_too() -> None:
    texts = (
        "You are Claude Code, Anthropic's official CLI for Claude.",
        "You are a helpful AI assistant tasked with summarizing conversations.",
    )
    parts = [{"type": "text", "text": text} for text in texts]
    for role in ("system", "developer"):
        found = find([{"role": role, "content": parts}, *CHAT])
        assert found is not None
        assert found.id == "claude-code"


@pytest.mark.parametrize(
    "messages",
    [
        [user("Summarise this text: …")],
        [user("请总结以下内容：…")],
        [user("Please create a detailed summary of the conversation so far.")],
        [system("You summarise texts."), user("Summarise: You are a context summarization assistant")],
        [user("What does 'You are a context summarization assistant' mean?")],
        [system("You are a helpful assistant."), user("You are a context summarization assistant, are you?")],
        [system("You are a title generator."), user("Generate a title")],
        [*CHAT, system("You are a context summarization assistant.")],
        [],
        [None, 3, {"role": "user"}],
    ],
)  # fmt: skip
def test_people_who_ask_for_summaries_are_not_mistaken_for_agents(messages: list[Any]) -> None:
    assert find(messages) is None


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
