"""Arguments: what a caller gave, looked at before anything is sent; what is wrong is told with what would be right."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from .errors import BadMessage, BadPolicy, Rejected
from .policy import converted

_CHARS_TOLD_MAX = 40
_PLACE = re.compile(r"at `\$\.(\w+)")
_WANTED = re.compile(r"Expected `([^`]+)`")
_KINDS = {"str": "a str", "int": "a whole number", "float": "a number", "bool": "True or False"}
_SUCH_AS = {
    "messages": "4-9",
    "lines": "20-80",
    "bytes": "1-4000",
    "key": "messages:4",
    "artifact": "61151668f0b120d1",
    "json_path": "$.items[0].id",
    "text": "ORD-1042",
}
"""What is written in a form of its own, by the argument of a question."""


class Dumped(Protocol):
    """An object of an SDK (pydantic's), which is taken where a message is."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
        """Return the object as a dict."""
        ...


def check_counts(**counts: int) -> None:
    """Raise `Rejected` for what cannot be a number of tokens."""
    _check_whole("a number of tokens such as 16000", counts)


def check_numbers(**numbers: int) -> None:
    """Raise `Rejected` for what is no whole number from 0."""
    _check_whole("a whole number, 0 or more", numbers)


def check_texts(**texts: str) -> None:
    """Raise `Rejected` for what is no text."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise Rejected(f"{name} is a str, and cannot be {told(value)}", argument=name)


def seconds_of(default: float, *, patience: float | None) -> float:
    """Return the seconds of *patience*; None: *default*. Raises `Rejected` for what is no time."""
    if patience is None:
        return default
    if isinstance(patience, bool) or not isinstance(patience, (int, float)) or not 0 <= patience < math.inf:
        wrong = f"patience is a number of seconds such as 30, and cannot be {told(patience)}"
        raise Rejected(wrong, argument="patience")
    return float(patience)


def checked_layer(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's layer of the policy. Raises `BadPolicy` that names the key."""
    if not isinstance(policy, Mapping):
        raise BadPolicy(f'policy is a dict such as {{"spill": {{"tokens": 2000}}}}, not {told(policy)}', key="")
    converted(policy)
    return dict(policy)


def question_of(asked: msgspec.Struct) -> bytes:
    """Return a question as it is sent. Raises `Rejected` that names the argument which cannot be used."""
    try:
        msgspec.convert(msgspec.structs.asdict(asked), type(asked))
        return msgspec.json.encode(asked)
    except msgspec.ValidationError as error:
        name = match[1] if (match := _PLACE.search(str(error))) else ""
        wanted = match[1] if (match := _WANTED.search(str(error))) else ""
        such = f" such as {_SUCH_AS[name]!r}" if wanted == "str" and name in _SUCH_AS else ""
        kind = f"{_KINDS.get(wanted, wanted)}{such}"
        raise Rejected(f"{name} is {kind}, and cannot be {told(getattr(asked, name, None))}", argument=name) from None
    except UnicodeEncodeError:
        raise Rejected("a question holds text that UTF-8 cannot: lone surrogates") from None


def listed(new: Iterable[object]) -> list[Any]:
    """Return the messages of a call as a list of dicts; objects with `model_dump()`, as SDKs have them, are taken.

    Raises `BadMessage` for what is no list.
    """
    if isinstance(new, (Mapping, str, bytes)) or hasattr(new, "model_dump"):
        kind = type(new).__name__
        raise BadMessage(f"append takes a list of messages, not one {kind}: append([message])", at="")
    if not isinstance(new, Iterable):
        raise BadMessage(f"append takes a list of messages, not {told(new)}", at="")
    return [plain(message) for message in new]


def plain(value: Any) -> Any:
    """Return *value* with each object of an SDK in it as the dict that its `model_dump()` is.

    Fields without a value are left out, as providers want them. Raises `BadMessage` where it cannot be dumped.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        try:
            return dump(mode="json", exclude_none=True)
        except Exception as error:  # of whatever library it is
            kind = type(value).__name__
            raise BadMessage(f"{kind}.model_dump() failed: {type(error).__name__}; append a dict", at="") from None
    if isinstance(value, dict) and not all(map(_is_plain, value.values())):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list) and not all(map(_is_plain, value)):
        return [plain(item) for item in value]
    return value


def told(value: object) -> str:
    """Return a value for a sentence; long ones are cut, and what is nothing but an object is named by its type."""
    text = repr(value)
    if not isinstance(value, (str, bytes, int, float, type(None))):
        return f"an object of the type {type(value).__name__}"
    return text if len(text) <= _CHARS_TOLD_MAX else f"{text[:_CHARS_TOLD_MAX]}…"


def _check_whole(what: str, given: Mapping[str, int]) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Rejected(f"{name} is {what}, and cannot be {told(value)}", argument=name)


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, type(None)))
