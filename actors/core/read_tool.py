"""Read tool: what is left out is named with the tool that reads it back, as the policy calls it, or with none.

Texts are made with one name for all. Another is put in when a view is written, so that what is kept, and what is
decided by it, does not depend on it. So is the conversation before each key, for a tool that reads for several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from protocol.errors import BadId
from protocol.formats.messages import decode
from protocol.ids import token
from protocol.policy import Policy
from protocol.tools import READ_TOOL, SERVED_TOOLS

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
_NAMED = re.compile(_NAME + rb'(\(\\"| with a key gives one)')

_SERVED = re.compile(rf"(?:.*[^a-z0-9])?jettison[^a-z0-9]+(?:{'|'.join(SERVED_TOOLS)})", re.IGNORECASE | re.DOTALL)
"""`mcp__jettison__read_artifact`, `jettison_expand`, `jettison.read_artifact`: what clients make of a tool's name. Not
of any server's: what another one's tool of that name returns is to be kept."""


def is_read_tool(name: str, policy: Policy) -> bool:
    """Tell whether *name* is that of a tool which reads back: what it returns is not put away again."""
    if not name.endswith(SERVED_TOOLS):
        return name != "" and name == _name(policy)
    return name in (READ_TOOL, _name(policy)) or bool(_SERVED.fullmatch(name)) or _is_beside(name, _name(policy))


def with_namespace(tool: str, raw: bytes) -> str:
    """Return the name of a call in an item, with its namespace where that tells whether its tool reads back.

    Codex calls `search_history` of `mcp__jettison`. Other tools keep their own names, by which policies know them; so
    does `read_artifact`, whatever the server is called.
    """
    if tool not in SERVED_TOOLS[1:] or b'"namespace"' not in raw:
        return tool
    namespace = decode(raw).get("namespace")
    return f"{namespace.removesuffix('__')}__{tool}" if isinstance(namespace, str) and namespace else tool


def _is_beside(name: str, read_tool: str) -> bool:
    """Tell a tool of the server whose *read_tool* the policy names."""
    server = read_tool.removesuffix(READ_TOOL)
    return server not in ("", read_tool) and name.removeprefix(server) in SERVED_TOOLS


def named(raw: bytes, policy: Policy, conversation: str = "") -> bytes:
    """Return the JSON of a message of ours with the tool's name as *policy* has it, without mention of none.

    *conversation* is what it was called when it was opened.
    """
    if _NAME not in raw:
        return raw
    name, before = _name(policy).encode(), _before(policy, conversation)
    if name == _NAME and not before:
        return raw
    if not name:
        return _ALL.sub(b"", raw)
    behind = b' with a key behind \\"%s\\" gives one' % before if before else b" with a key gives one"
    return _NAMED.sub(lambda found: name + (found[1] + before if found[1].endswith(b'"') else behind), raw)


def more_tokens(messages: Sequence[bytes], policy: Policy, count: Callable[[str], int], conversation: str = "") -> int:
    """Return at most how many tokens more the policy's name and keys cost in *messages* than what was counted."""
    name, before = _name(policy), _before(policy, conversation).decode()
    if not name or (name == READ_TOOL and not before):
        return 0
    each = count(name) - count(READ_TOOL) + (count(f' behind "{before}') + 1 if before else 0)
    return (each + 1) * sum(raw.count(name.encode()) for raw in messages) if each > 0 else 0


def _before(policy: Policy, conversation: str) -> bytes:
    """Return the prefix of each key: the conversation as addresses have it, where the policy wants it."""
    if policy.shape.read_keys != "named":
        return b""
    try:
        return f"{token(conversation)}/".encode()
    except BadId:
        return b""  # who never opened it gave it no name


def _name(policy: Policy) -> str:
    """Return the tool's name; empty where there is none."""
    return policy.shape.read_tool if isinstance(policy.shape.read_tool, str) else READ_TOOL
