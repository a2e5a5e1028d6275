"""Personal data that is found, and what looks like it and is none. No number here belongs to a person."""

from __future__ import annotations

import pytest

from openclaw_cache.result.personal import PersonalData

PERSONAL = PersonalData()


@pytest.mark.parametrize(
    "text",
    [
        "write to alice.b+cache@mail.alice-und-bob.de, please",
        "邮箱alice@qq.com。",
        "<ALICE@GMAIL.COM>",
        "see https://host/path?from=alice@gmail.com",
        # Numbers of companies and of the examples in number plans.
        "call +1 650-253-0000 today",
        "call (650) 253-0000",
        "call 650-253-0000.",
        "650.253.0000",
        "ring +44 20 7031 3000 2026",
        "+493030300986",
        "客服电话：+86 138 0013 8000",
        "手机13800138000找我",
        "Tel.13800138000",
        "138-0013-8000",
        # The payment networks' numbers for tests.
        "4242424242424242",
        "card 4242 4242 4242 4242 123",
        "card: 4242-4242-4242-4242, 12/27",
        "5555555555554444",
        "2223003122003222",
        "378282246310005",
        "3782 822463 10005",
        "6011111111111117",
        "30569309025904",
        "3566002020360505",
        "6200000000000005",
        # The examples of the IBAN registry.
        "GB29NWBK60161331926819",
        "IBAN GB29 NWBK 6016 1331 9268 19 PLEASE",
        "DE89 3704 0044 0532 0130 00",
        "BE71 0961 2345 6769 PAID",
        # The examples of GB 11643.
        "身份证号11010519491231002X",
        # The example of the python-stdnum documentation.
        "SSN 536-90-4399",
    ],
)
def test_personal_data_is_found(text: str) -> None:
    assert PERSONAL.is_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "什么是缓存？",
        "git clone git@github.com:openclaw/openclaw.git",
        "npm install @types/node@22.1.0 pkg@latest",
        "alice@example.com, bob@mail.example.org, carol@host.test, root@localhost, a@nas.local",
        "@decorator and a@b",
        "https://alice@github.com/a/b.git and https://alice:token@github.com/a/b.git",
        # Times, ids, hashes, versions, money.
        "1760000000 1795972978324 2026-11-30T02:18:14Z 20261130021814",
        "2026-11-30 2026-12-01 2027-01-01",
        "commit 4242424242424242deadbeef",
        "0.13800138000",
        "x13800138000",
        "138001380001",
        "version 1.2.3.4 at 192.168.100.200:8080, 127.0.0.1",
        "11.123.456,00 EUR",
        "chatcmpl-4111111111111111",
        # One digit off.
        "4242424242424241",
        "GB29NWBK60161331926818",
        "110105194912310021",
        "GB00 AAAA BBBB CCCC DDDD 00",
        # Numbers that nobody can have.
        "+1 650-153-0000",
        "000-12-3456",
        "078-05-1120",
        "1234567890123456",
        "12345678901",
    ],
)
def test_what_only_looks_like_personal_data_is_not(text: str) -> None:
    assert not PERSONAL.is_in(text)


def test_a_text_with_more_near_misses_than_are_checked_counts_as_found() -> None:
    near_miss = "GB29NWBK60161331926818 "
    assert not PERSONAL.is_in(near_miss * 100)
    assert PERSONAL.is_in(near_miss * 101)
