"""Secrets that are found, and what looks like one and is none. All of them are made up here."""

from __future__ import annotations

import base64
import hashlib
import string

import pytest

from openclaw_cache.result.secrets_in_text import Secrets

SECRETS = Secrets()


def made_up(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """A text without meaning, always the same: literals would set off the scanners of those who host this file."""
    number = int.from_bytes(hashlib.shake_128(f"{length}{alphabet}".encode()).digest(2 * length))
    letters = []
    for _ in range(length - 1):
        number, rest = divmod(number, len(alphabet))
        letters.append(alphabet[rest])
    return "".join(letters) + "7"


HEX = string.digits + "abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
JSON_WEB_TOKEN = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890"}', hashlib.sha256(b"").digest())
)


@pytest.mark.parametrize(
    "text",
    [
        # With a shape of their own, in the order of the services.
        "AKIA" + made_up(16, UPPER),
        f"aws_secret_access_key = {made_up(40)}",
        f"postgres://app:{made_up(12)}@db.host:5432/app",
        "M" + made_up(23) + "." + made_up(6) + "." + made_up(27),
        "ghp_" + made_up(36),
        "github_pat_" + made_up(22) + "_" + made_up(59),
        made_up(32, HEX) + "-us12",
        "npm_" + made_up(36),
        f"//registry.npmjs.org/:_authToken={made_up(36, LOWER)}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{made_up(64)}\n",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{made_up(64)}\n",
        "SG." + made_up(22) + "." + made_up(43),
        "xoxb-" + made_up(12, string.digits) + "-" + made_up(24, LOWER),
        "xapp-1-" + made_up(11, UPPER) + "-" + made_up(13, string.digits),
        "https://hooks.slack.com/services/T" + made_up(8) + "/B" + made_up(8) + "/" + made_up(24),
        "sq0csp-" + made_up(43),
        "sk_live_" + made_up(24),
        "SK" + made_up(32, HEX),
        "sk-" + made_up(48),
        "sk-proj-" + made_up(74) + "T3BlbkFJ" + made_up(74),
        "sk-ant-api03-" + made_up(93) + "AA",
        "sk-or-v1-" + made_up(64, HEX),
        "AIza" + made_up(35),
        "hf_" + made_up(34),
        "gsk_" + made_up(52),
        "glpat-" + made_up(20),
        "pypi-AgEIcHlwaS5vcmc" + made_up(70),
        made_up(10, string.digits) + ":AA" + made_up(33),
        JSON_WEB_TOKEN,
        f"Authorization: Bearer {made_up(40)}",
        # Only a name before them.
        f'password = "{made_up(10)}"',
        f"DB_PASSWORD={made_up(10)}",
        f"export OPENCLAW_GATEWAY_TOKEN='{made_up(32, HEX)}'",
        f'{{"apiKey": "{made_up(24)}"}}',
        f"client-secret: {made_up(16)}",
        f"AccountKey={base64.b64encode(bytes(range(64))).decode()};EndpointSuffix=core.windows.net",
        f"密码：{made_up(12)}",
        f"- **Token**: `{made_up(20)}`",
        # Chinese before, and in the middle of text.
        f"密钥是sk-{made_up(48)}，请保密",
        f"my password is: {made_up(9)}",
        f"the password is {made_up(9)}",
    ],
)
def test_a_secret_is_found(text: str) -> None:
    assert SECRETS.are_in(f"first line\n{text}\nlast line")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "什么是缓存？",
        "how do I rotate a password or an API key?",
        "the password: at least 12 characters, the token: required",
        'password = "<your password here 1>"',
        "password = ${DB_PASSWORD_1}",
        "token: {{secrets.TOKEN_1}}",
        'api_key = os.environ["API_KEY_1"]',
        "token = next_token_2(stream)",
        'api_key="your_api_key_123"',
        'api_key="sk-..."',
        "tokenizer: o200k_base",
        "max_tokens=128000 completion_tokens: 1234567890",
        "token: string, secret: boolean",
        "secret_file: ~/.openclaw-cache/secret2",
        "token_url=https://login.host/oauth2/v2.0/token",
        "AKIA",
        # Hashes and ids, of which the text of agents is full.
        hashlib.sha1(b"commit").hexdigest(),
        "sha256:" + hashlib.sha256(b"image").hexdigest(),
        '"integrity": "sha512-' + base64.b64encode(hashlib.sha512(b"package").digest()).decode() + '"',
        "51c5316d-dcc1-4505-bd60-2e4d7b17cf23",
        "call_" + made_up(24),
        "chatcmpl-" + made_up(29),
        "sk-folding-cube-with-many-words",
        "https://user.host/path:80@2x.png",
        "-----BEGIN PUBLIC KEY-----\n" + made_up(64),
    ],
)
def test_what_only_looks_like_a_secret_is_not(text: str) -> None:
    assert not SECRETS.are_in(f"first line\n{text}\nlast line")
