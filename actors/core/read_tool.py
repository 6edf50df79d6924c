"""Read tool: what is left out is named with the tool that reads it back, as the policy calls it, or with none.

Texts are made with one name for all. Another is put in when a view is written, so that what is kept, and what is
decided by it, does not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from protocol.policy import Policy
from protocol.tools import READ_TOOL

_NAME = READ_TOOL.encode()
_CALL = _NAME + rb'\(\\"[^"\\]{1,80}\\"(?:, (?:lines|bytes|json_path)=\\"[^"\\]{1,40}\\")?\)'
_WITH = rb"(?: (?:or|with) a pattern)?"
_SENTENCES = (
    # a sentence of its own, or behind a semicolon
    rb";? (?:Read more|[Tt]he whole|The messages themselves|Any message in full, also one alone): "
    + (_CALL + _WITH + rb"\.?"),
    rb" Read the whole with " + _CALL + rb"\.",
    rb"; " + _NAME + rb" with a key gives one",
    rb": " + _CALL + _WITH,
    _CALL,
)
_ALL = re.compile(b"|".join(_SENTENCES))
_NAMED = re.compile(_NAME + rb'(?=\(\\"| with a key gives one)')


def is_read_tool(name: str, policy: Policy) -> bool:
    """Tell whether *name* is that of the tool which reads back: what it returns is not put away again."""
    return name == READ_TOOL or (name != "" and name == _name(policy))


def named(raw: bytes, policy: Policy) -> bytes:
    """Return the JSON of a message of ours with the tool's name as *policy* has it, without mention of none."""
    if _NAME not in raw or _name(policy) == READ_TOOL:
        return raw
    name = _name(policy).encode()
    return _NAMED.sub(name, raw) if name else _ALL.sub(b"", raw)


def more_tokens(messages: Sequence[bytes], policy: Policy, count: Callable[[str], int]) -> int:
    """Return at most how many tokens more the policy's name costs in *messages* than the one that was counted."""
    each = count(_name(policy)) - count(READ_TOOL) if _name(policy) else 0
    name = _name(policy).encode()
    return (each + 1) * sum(raw.count(name) for raw in messages) if each > 0 else 0


def _name(policy: Policy) -> str:
    """Return what the tool is called; empty where there is none."""
    return policy.shape.read_tool if isinstance(policy.shape.read_tool, str) else READ_TOOL
