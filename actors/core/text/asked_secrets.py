"""Asked secrets: of an answer to who asks for a password or a key, a handle stands for what may be one."""

from __future__ import annotations

import re

from .secrets import handle_of, without_secrets

_ASKS = re.compile(
    r"(?i)passw|passphrase|passcode|pwd\b|\bsecret\b|(?:api|access|ssh|private|licen[cs]e|encryption)[ _-]?key|\bpin\b"
    r"|credential|\btoken\b(?! (?:budget|count|limit|size|type|usage|window))"
    r"|kennwort|contraseña|contrasena|mot de passe|senha|hasło|парол|密码|密碼|パスワード|비밀번호"
)
_PIN = re.compile(r"(?i)\bpins?\b|passcode")
_QUOTED = re.compile(r"\"[^\"\n]+\"|'[^'\n]+'|`[^`\n]+`|\S+")
"""A word, or words in quotes."""

_AROUND = ".,;:!?()"
"""What may stand around a word and is none of it; a mark of a sentence at the end of a password is shown."""

_PLAIN = re.compile(r"(?i)yes|no|ok|okay|sure|none|later|skip|ja|nein|oui|non|sí|si|да|нет|是|否|はい|いいえ")
CHARS_MIN, MIXED_CHARS_MIN = 4, 6
"""Of a secret that is all of an answer, and of one among other words."""


def without_asked_secret(answer: str, question: str, number: int) -> str:
    """Return an *answer* with handles for what may be a secret, where the *question* asks for one.

    *number* is the message it stands in. One word is taken for a secret unless it says yes or no.
    """
    if not _ASKS.search(question):
        return answer
    is_alone, is_pin = len(answer.split()) == 1, bool(_PIN.search(question))

    def hidden(found: re.Match[str]) -> str:
        whole = found.group()
        word = whole.strip(_AROUND).strip("\"'`")
        if not _is_like(word, is_alone=is_alone, is_pin=is_pin, is_quoted=whole[0] in "\"'`"):
            return whole
        return whole.replace(word, handle_of(word.encode("utf-8", "replace"), number), 1)

    return _QUOTED.sub(hidden, without_secrets(answer, number))


def _is_like(word: str, *, is_alone: bool, is_pin: bool, is_quoted: bool) -> bool:
    if len(word) < CHARS_MIN or _PLAIN.fullmatch(word):
        return False
    if is_alone or is_quoted or (is_pin and word.isdecimal()):
        return True
    digits, letters = any(map(str.isdecimal, word)), any(map(str.isalpha, word))
    others = sum(not one.isalnum() for one in word)
    return len(word) >= MIXED_CHARS_MIN and letters and (digits or others >= 2)
