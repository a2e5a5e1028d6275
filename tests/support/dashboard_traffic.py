"""Real requests of a few agents, so that a dashboard has something to show."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

Json = Any
MODEL = "smollm2-135m"
_RULES = (
    "You are {name}, the {role} of a small company. Answer briefly and precisely. Say so when you do not know. "
    "Never promise a delivery date. Quote prices in euros with two digits. Be kind to people who are upset. "
)
AGENTS = {
    "support": ("support desk", ["Where is my parcel?", "How do I send something back?", "Can I change the address?"]),
    "finance": ("book keeper", ["What is a credit note?", "When is an invoice due?", "Name the rates of VAT."]),
    "research": ("analyst", ["Name three kinds of trees.", "What is a prefix?", "Name a colour."]),
}  # fmt: skip


def ask(
    url: str, agent: str, session: str, messages: list[Json], *, request_id: str = "", **fields: Json
) -> str:
    """One chat completion; returns the assistant's text. Errors of the server are not raised: they are traffic too."""
    body = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 16} | fields
    headers = {"content-type": "application/json", "x-openclaw-agent": agent, "x-session-affinity": session}
    if request_id:
        headers["x-request-id"] = request_id
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", data=json.dumps(body).encode(), headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            raw = response.read()
    except urllib.error.HTTPError as e:
        return e.read().decode()
    if body.get("stream"):
        return ""
    return str(json.loads(raw)["choices"][0]["message"]["content"])


def system(agent: str) -> Json:
    """An agent's system prompt."""
    return {"role": "system", "content": _RULES.format(name=agent.title(), role=AGENTS[agent][0]) * 3}


def converse(url: str, agent: str, session: str) -> None:
    """One session: each question with all that was said before it."""
    messages = [system(agent)]
    for question in AGENTS[agent][1]:
        messages.append({"role": "user", "content": question})
        answer = ask(url, agent, session, messages)
        messages.append({"role": "assistant", "content": answer})


def work_day(url: str) -> dict[str, int]:
    """Some of everything; returns how many requests had which outcome, counted from what is sent here."""
    for agent in AGENTS:
        converse(url, agent, f"{agent}-1")
    for agent in AGENTS:  # word for word the same: all of it is stored
        converse(url, agent, f"{agent}-2")
    question = {"role": "user", "content": "Tell me about the weather."}
    tool = {"type": "function", "function": {"name": "look", "description": "Look out of the window."}}
    ask(url, "support", "support-3", [system("support"), question], tools=[tool], request_id="with-tools")
    ask(url, "support", "support-3", [system("support"), question], request_id="streamed", stream=True)
    for at in ("09:00", "09:05"):  # a clock at the head of a prompt: nothing behind it can be used again
        clock = {"role": "system", "content": f"Current time: {at}. {system('research')['content']}"}
        ask(url, "research", "research-3", [clock, question], request_id=f"clock-{at[-2:]}")
    ask(url, "research", "research-4", [question], request_id="no-such-model", model="no-such-model")
    return {"exact": 9, "miss": 9 + 3, "bypass": 1, "error": 1, "semantic": 0, "collapsed": 0}
