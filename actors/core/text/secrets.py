"""Secrets: passwords and keys enter no digest, no ledger and no request to the model that squeezes.

A policy may say otherwise (`digest.secrets = "show"`); the messages of a view stay as they were said.
In its place stands a handle with the first digits of its SHA-256, so that the same secret always has the same
name, and the message in which it can be read. The shapes of known keys are those of gitleaks' default rules
(github.com/gitleaks/gitleaks, config/gitleaks.toml, MIT), in RE2; the rules for assignments are our own and
ask more of a value than gitleaks does, because most of what follows `token:` in a transcript is not one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import re2

from . import patterns
from .patterns import encoded, gate_of_words, spans, stands

HANDLE_DIGITS = 8
"""Of the hash: enough to tell the secrets of one conversation apart, too few to try passwords against."""

SECRETS_MAX = 100_000
"""Of one shape in one text."""

ASSIGNED_CHARS_MIN = 8
_PASSWORD_CHARS_MIN = 5
_HEADER_CHARS_MIN = 7

_KNOWN: tuple[tuple[Any, int], ...] = tuple(
    (re2.compile(pattern), group)
    for pattern, group in (
        (r"(?s)-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----.{16,}?-----END[ A-Z0-9_-]{0,60}-----", 0),
        # cut off in the middle: only what can be the body of a key
        (
            r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{16,}(?:\s|\\[nr])*)+",
            0,
        ),
        (r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", 0),
        (r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", 0),
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,})", 0),
        (r"\b(?:glpat|gldt|glrt|glsoat)-[\w-]{20,}", 0),
        (r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{10,}", 0),
        (r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w+/]{40,60})", 1),
        (r"\b(?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{10,99}|\bwhsec_[A-Za-z0-9+/]{24,}", 0),
        (r"\bsk-(?:proj-|svcacct-|admin-|or-v1-|ant-[a-z0-9]{2,8}-)[\w-]{20,}|\bsk-[A-Za-z0-9]{20,60}", 0),
        (r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,40}", 0),
        (r"\b(?:npm_[A-Za-z0-9]{36}|hf_[A-Za-z]{34}|dop_v1_[a-f0-9]{64}|hvs\.[\w-]{24,}|dapi[a-f0-9]{32})\b", 0),
        (r"\b(?:pypi-AgE[\w-]{50,}|SG\.[\w-]{16,32}\.[\w-]{30,60}|SK[0-9a-f]{32}|lin_api_[A-Za-z0-9]{40})", 0),
        (r"\b\d{8,10}:AA[\w-]{33}\b", 0),
        (r"AccountKey=([A-Za-z0-9+/=]{40,})", 1),
        (r"\bsig=([A-Za-z0-9%]{43,60}%3[dD])", 1),
        (r"\bey[A-Za-z0-9_-]{14,}\.ey[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{10,}", 0),
    )
)

_QUOTE = r"(?:\\?[\"'`]){0,2}"
_PASSWORD = (
    r"pass(?:word|wd|phrase|code)|pwd|passwort|kennwort|contraseña|contrasena|mot de passe|senha|密码|パスワード"
)
_TOKEN = (
    r"secret|token|api[ _-]?key|access[ _-]?key(?:[ _-]?id)?|auth[ _-]?key|account[ _-]?key|secret[ _-]?key"
    r"|private[ _-]?key|signing[ _-]?key|encryption[ _-]?key|client[ _-]?secret|credentials?"
)
# in files of settings what is assigned often stands in a column of its own
_IS = r"(?:\s|[ \t]{0,40})(?:=|:|=>|:=|：)(?:\s{0,2}|[ \t]{0,40})|\s(?:is|ist|lautet|es|est|é)\s(?:\s?:)?|(?:是|为|は)"
_ASSIGNED: tuple[tuple[Any, int], ...] = (
    (re2.compile(
        rf"(?i)((?:[\w.-]{{0,40}})(?:{_PASSWORD}))({_QUOTE}(?:{_IS}){_QUOTE}|\\?[\"']?\s*,\s*\\?[\"']|>)"
        r"([^\s\"'`,;<>\\(){}\[\]]{5,})"
    ), _PASSWORD_CHARS_MIN),
    (re2.compile(
        rf"(?i)((?:[\w.-]{{0,40}})(?:{_TOKEN}))({_QUOTE}(?:{_IS}){_QUOTE}|>)([^\s\"'`,;<>\\(){{}}\[\]&]{{8,}})"
    ), ASSIGNED_CHARS_MIN),
    (re2.compile(
        r"(?i)(--(?:password|passwd|token|api-?key|secret|access-?key))(\s+\\?[\"']?)([^\s\"'`,;<>\\(){}\[\]]{5,})"
    ), _PASSWORD_CHARS_MIN),
    (re2.compile(r"(?i)(\bauthorization\\?[\"']?\s?[:=]\s?\\?[\"']?)"
                r"(?:(?:bearer|basic|token)\s)(\S{0})([\w.~+/=-]{7,})"),
     _HEADER_CHARS_MIN),
    (re2.compile(r"(?i)(\bbearer)(\s)([\w.~+/=-]{20,})"), ASSIGNED_CHARS_MIN),
)  # fmt: skip

_IN_URL = re2.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>`]*:([^\s/\"'<>`]+)@[\w.\[-]")
_CURL_USER = re2.compile(r"\bcurl\b[^\n]*?\s(?:-u|--user)[ =]?\\?[\"']?[^\s:\"'\\]+:([^\s\"'\\]{4,})")
_WRITTEN: tuple[tuple[Any, int], ...] = ((_IN_URL, 1), (_CURL_USER, 1))

_possible = gate_of_words([pattern for pattern, _ in (*_KNOWN, *_WRITTEN, *_ASSIGNED)])

_EXPRESSION = re2.compile(
    # what code and documents have in a secret's place: another name, a variable, a placeholder, a type
    r"(?i)\A(?:[$%#{*].*|[a-z_][a-z_]*(?:\.[a-z_]\w*)+|[a-z]+(?:_[a-z]+)+|(?-i:[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
    r"|.*(?:\*\*\*|\.\.\.|…|xxx|redacted"
    r"|hidden"
    r"|placeholder|change.?me|your[_-]|example|sample|dummy|process\.env|os\.environ|getenv|secretkeyref).*)\z"
)
# parts of names of tokens that open nothing: of pages, and the special ones of a tokenizer
_NOT_SECRET_KEYS = (
    "next",
    "page",
    "continu",
    "sync",
    "cursor",
    "max",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "mask",
    "num",
)


def without_secrets(text: str, number: int) -> str:
    """Return *text* with a handle in the place of each secret; *number* is the message it stands in."""
    hidden = hide(encoded(text), number)
    return text if hidden is None else hidden[0].decode("utf-8", "replace")


def hide(data: bytes, number: int) -> tuple[bytes, bytes, list[str]] | None:
    """Return *data* with handles, *data* with the secrets left out, and the handles; None if there is no secret."""
    places = _places(data)
    if not places:
        return None
    named, bare, handles, at = [], [], [], 0
    for start, end in places:
        handle = handle_of(data[start:end], number)
        handles.append(handle)
        named += [data[at:start], handle.encode()]
        # a space, so that what stands around it does not grow together to a value that nobody wrote
        bare += [data[at:start], b" "]
        at = end
    return b"".join((*named, data[at:])), b"".join((*bare, data[at:])), list(dict.fromkeys(handles))


def handle_of(secret: bytes, number: int) -> str:
    """Return the handle of a *secret* in message *number*."""
    return f"[secret {hashlib.sha256(secret).hexdigest()[:HANDLE_DIGITS]} in message {number}]"


def secrets_in(data: bytes) -> list[str]:
    """Return the different secrets in *data*, as they stand there, in order."""
    return list(dict.fromkeys(data[start:end].decode("utf-8", "replace") for start, end in _places(data)))


def _places(data: bytes) -> list[tuple[int, int]]:
    found = sorted(_found(data))
    places: list[tuple[int, int]] = []
    for start, end in found:
        if places and start < places[-1][1]:
            places[-1] = (places[-1][0], max(end, places[-1][1]))
        else:
            places.append((start, end))
    return places


def _found(data: bytes) -> Iterator[tuple[int, int]]:
    possible = _possible(data)
    for pattern, group in _KNOWN:
        if pattern in possible:
            yield from spans(pattern, data, group=group, most=SECRETS_MAX)
    for pattern, group in _WRITTEN:
        for start, end in spans(pattern, data, group=group, most=SECRETS_MAX) if pattern in possible else ():
            if not stands(_EXPRESSION, data[start:end]):
                yield start, end
    for pattern, least in _ASSIGNED:
        for _, key, _, (start, end) in patterns.places(pattern, data, most=SECRETS_MAX) if pattern in possible else ():
            end -= len(data[start:end]) - len(data[start:end].rstrip(b".:"))
            if _is_secret(data[slice(*key)], data[start:end], least):
                yield start, end


def _is_secret(key: bytes, value: bytes, least: int) -> bool:
    """Tell a secret from what else stands behind such a key: it is long, mixed, and no expression."""
    if len(value) < least or stands(_EXPRESSION, value):
        return False
    password = least == _PASSWORD_CHARS_MIN
    low = key.lower()
    if not password and any(name.encode() in low for name in _NOT_SECRET_KEYS):
        return False
    letters = sum(chr(byte).isalpha() for byte in value)
    digits = sum(48 <= byte < 58 for byte in value)
    others = len(value) - letters - digits
    if password:
        # in an environment file (`DB_PASSWORD=swordfish`) a word is a password, in prose it is a word
        return bool(digits or (others and letters)) or (key.isupper() and b"_" in key)
    if least == _HEADER_CHARS_MIN and value.upper() != value != value.lower():
        return True
    return bool(digits and letters) and len(set(value)) * 3 >= min(len(value), 24) and len(set(value)) > 5
