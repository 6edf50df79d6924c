"""Secrets: a handle stands where a key, a token or a password was; what only looks like one is left alone."""

from __future__ import annotations

import hashlib

import pytest

from actors.core.extract import found_in, values_of
from actors.core.text.patterns import encoded
from actors.core.text.secrets import hide, secrets_in, without_secrets
from actors.digest.decide import digest
from protocol import codec
from protocol.facts import HistoryDigested
from tests.builders import COUNT, Talk, assistant, policy, result, user, words

HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----"
# put together here, so that no scanner of repositories takes them for real ones
SECRETS = {
    "aws": ("AKI" + "A2B3C4D5E6F7G2H3I", "key {}"),
    "github": ("ghp" + "_" + "a1B2" * 9, "export GH={}"),
    "gitlab": ("glpat" + "-" + "x9Y8z7W6v5U4t3S2r1Q0", "use {} now"),
    "slack": ("xox" + "b-123456789012-abcdefABCDEF", "{}"),
    "stripe": ("sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "({})"),
    "openai": ("sk" + "-proj-" + "Ab1" * 14, '"{}"'),
    "google": ("AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6q", "{}"),
    "jwt": (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{HEX}", "Cookie: s={}"),
    "private key": (KEY, "cat id_rsa\n{}\n$"),
    "private key in JSON": (KEY.replace("\n", "\\n"), '{{"pem": "{}"}}'),
    "private key cut off": (f"-----BEGIN PRIVATE KEY-----\n{BODY}\n{BODY}", "{}"),
    "database": ("s3cr3tPw", "DATABASE_URL=postgres://app:{}@db.internal:5432/shop"),
    "password": ("hunter2!", "password: {}"),
    "password in JSON": ("hunter2!", '{{\\"password\\": \\"{}\\"}}'),
    "password in an environment file": ("swordfish", "DB_PASSWORD={}"),
    "password in a sentence": ("Tr0ub4dor", "My password is {}, do not repeat it"),
    "German": ("geh31mnis", "Das Passwort lautet {}."),
    "Spanish": ("cl4ve-mia", "La contraseña es {}"),
    "Chinese": ("mima88xx", "密码是{}"),
    "Japanese": ("himitsu77", "パスワード：{}"),
    "token": ("9f8e7d6c5b4a3f2e1d0c", "auth_token = '{}'"),
    "header": ("dXNlcjpwYXNzMTIz", "Authorization: Basic {}"),
    "bearer": ("abcdef0123456789abcdef01", "-H 'Authorization: Bearer {}'"),
    "flag": ("pa55word", "mysql --password {} shop"),
    "curl": ("pa55word", "curl -s -u admin:{} https://x.example"),
}


@pytest.mark.parametrize(
    "around",
    [
        "api_key = {}",
        'twilio_auth_token            = "{}"',
        "client_secret:\t\t{}",
        "Authorization: Bearer {}",
        "postgres://u:{}@db.example/x",
        "password is {}",
        "client_secret: {}",
    ],
)
@pytest.mark.parametrize("secret", ["Zx81_kQ93LmN0pRt77", "zx81_kq93lmn0prt77", "hunter_2x_and_4y"])
def test_a_secret_with_underscores_is_no_name(around: str, secret: str) -> None:
    assert secrets_in(around.format(secret).encode()) == [secret]


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_gives_way_to_its_handle(kind: str) -> None:
    secret, around = SECRETS[kind]
    handle = f"[secret {hashlib.sha256(secret.encode()).hexdigest()[:8]} in message 12]"
    assert without_secrets(around.format(secret), 12) == around.format(handle)


@pytest.mark.parametrize(
    "text",
    [
        "password: str",
        "password = os.environ['DB_PASSWORD']",
        "password=${DB_PASSWORD}",
        "api_key = settings.api_key2",
        "password = db_password_of_the_user",
        "API_KEY=YOUR_API_KEY_1",
        "token: Optional[str] = None",
        '"total_tokens": 18211, "next_page_token": "CAAQAA12345678"',
        "max_tokens=4096",
        "The password is required.",
        "password is at least 8 characters",
        "secret: {name: db}",
        "postgres://user:${PASSWORD}@localhost/db",
        "https://x.example:8080/a@b",
        "sk-learn and task-force-one",
        "commit a3f9c2d1e4b5a3f9c2d1e4b5a3f9c2d1e4b5a3f9",
        "def check_password(password, hashed):",
        '{"password": {"type": "string"}}',
        "[secret a1b2c3d4 in message 12]",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert without_secrets(text, 1) == text


def test_the_same_secret_has_the_same_handle_in_every_text() -> None:
    first, second = (hide(encoded(f"{name}={'s3cr3t-v4lue'}"), 3) for name in ("api_key", "password"))
    assert first is not None
    assert second is not None
    assert first[2] == second[2]


def test_a_text_without_secrets_is_the_same_object() -> None:
    text = "nothing here"
    assert without_secrets(text, 1) is text


def test_no_secret_enters_digest_ledger_or_index() -> None:
    said = [around.format(secret) for secret, around in SECRETS.values()]
    talk = Talk(policy(6000, spill={"share": 1.0, "medium": 1.0}))
    talk.append(user("\n".join(said)), assistant(None, "c", arguments='{"a": "password=hunter2!"}'))
    talk.append(result("c", "\n".join(reversed(said))), assistant(f"You must use password {said[8]}"))
    talk.append(*(user(words(100)) for _ in range(50)))
    (fact,) = digest(talk.state, count=COUNT)
    assert isinstance(fact, HistoryDigested)
    body = codec.encode_commit(talk.sealed((fact,)))
    index = " ".join(values_of("\n".join(said)))
    for secret, _ in SECRETS.values():
        assert secret.encode() not in body
        assert secret not in index
    assert "secret" in {item.category for item in fact.items}


def test_a_secret_inside_a_rule_leaves_the_rule() -> None:
    talk = Talk(policy(9000))
    talk.append(user("You must never print password=hunter2! anywhere"))
    rules = [item.value for item in found_in(talk.state.live).items if item.category == "rule"]
    assert rules == ["You must never print password=[secret cb1ade2b in message 1] anywhere"]
