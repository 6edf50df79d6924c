"""Caps: which parts of a message must leave the window, and which may be made smaller.

The fold asks this before it admits a message, so it depends on the entry, the policy and the usable tokens
alone: on nothing that another worker or another moment would see differently.
"""

from __future__ import annotations

from itertools import takewhile

from protocol.formats.messages import MEDIA
from protocol.policy import Policy, share_of
from protocol.policy_sections import ToolCap

from .entry import Entry, PartSize, result_of, tokens_of_results
from .read_tool import is_read_tool

CAP_TOKENS_MIN = 160
"""A pointer costs about 100 tokens: what is smaller would grow by being spilled."""

MEDIUM_TOKENS_MIN = 240
"""Below two pointers, little is left to show once one is paid for."""

POINTER_TOKENS = 110
"""Bound on a pointer without its preview."""

ASSISTANTS_MORE = 1.3
"""Times the cap of a result, for what an assistant said, where an account tells old messages: the newest is whole, and
what one printed is shortened when it is old."""

NEAR_MESSAGES = 8
"""Between a result and its repetition: who asks again later likely sees it no more."""

EVERY_TOOL = ToolCap()


def cap_tokens(policy: Policy, usable_tokens: int, tool: str = "") -> int:
    """Return the tokens that one part may have before it is spilled; as many are allowed."""
    own = tool_cap(policy, tool)
    share = policy.spill.share if own.share is None else own.share
    tokens = policy.spill.tokens if own.tokens is None else own.tokens
    return max(CAP_TOKENS_MIN, min(share_of(_whole(policy, usable_tokens), share), tokens))


def medium_tokens(policy: Policy, usable_tokens: int, tool: str = "") -> int:
    """Return the tokens above which a tool's result is shortened, if that wins enough."""
    own = tool_cap(policy, tool).medium
    share = policy.spill.medium if own is None else own
    return max(MEDIUM_TOKENS_MIN, share_of(_whole(policy, usable_tokens), share))


def tool_cap(policy: Policy, tool: str) -> ToolCap:
    """Return the limits of *tool*: those under its name, else under the longest beginning of it with a `*` behind."""
    per_tool = policy.spill.per_tool
    if not tool or not per_tool:
        return EVERY_TOOL
    if tool in per_tool:
        return per_tool[tool]
    fitting = [name for name in per_tool if name.endswith("*") and tool.startswith(name[:-1])]
    return per_tool[max(fitting, key=len)] if fitting else EVERY_TOOL


def part_cap_tokens(entry: Entry, part: PartSize, policy: Policy, usable_tokens: int) -> int:
    """Return the cap of *part*: its tool's, or what its batch of calls leaves, the smaller."""
    cap = cap_tokens(policy, usable_tokens, tool_of(entry, part))
    batch = _batch(entry, part)
    if not batch:
        return cap
    every = cap_tokens(policy, usable_tokens)
    left = share_of(_whole(policy, usable_tokens), policy.spill.batch)
    for tokens in batch:
        allowed = max(CAP_TOKENS_MIN, min(every, left))
        left -= tokens if tokens <= allowed else pointer_room(allowed, policy)
    return max(CAP_TOKENS_MIN, min(cap, left))


def bytes_cap(entry: Entry, part: PartSize, policy: Policy) -> int:
    """Return the bytes that *part* may have before it is spilled; as many are allowed."""
    own = tool_cap(policy, tool_of(entry, part)).bytes
    return policy.spill.bytes if own is None else own


def is_result(entry: Entry, part: PartSize) -> bool:
    """Tell whether *part* is what a tool returned: a message of its own, an observation, or a block of a user's."""
    is_observed = entry.observed and part.kind == "text"
    return entry.role == "tool" or is_observed or result_of(entry, part.pointer) is not None


def tool_of(entry: Entry, part: PartSize) -> str:
    """Return the name of the tool whose result *part* is; an empty one where it is none or not known."""
    found = result_of(entry, part.pointer)
    return found.tool if found else ""


def pointer_room(cap: int, policy: Policy) -> int:
    """Return the tokens that a pointer may have together with its preview."""
    return max(POINTER_TOKENS, share_of(cap, policy.spill.preview))


def oversized(entry: Entry, policy: Policy, usable_tokens: int) -> tuple[PartSize, ...]:
    """Return the parts that spill must look at before the message may be shown.

    Instructions are never spilled, and neither are the arguments of a call: both are shortened by cut if nothing
    else helps. A claimed text is not in the message and must be spilled; a claimed image is shown by its name. A
    result of medium size or one that repeats an earlier one is looked at once: spill shortens it, or declines.
    """
    if not entry.role or entry.largest <= CAP_TOKENS_MIN:
        return ()
    there = {one.pointer for one in entry.shown}
    together = {part.pointer for group in whole_results(entry, policy, usable_tokens) for part in group}
    return tuple(
        part
        for part in entry.parts
        if part.pointer not in there
        and (
            part.pointer in together
            or (part.sha256 and part.kind not in MEDIA)
            or over_cap(entry, part, policy, usable_tokens)
            or (not entry.looked and (repeats(entry, part, policy) or is_medium(entry, part, policy, usable_tokens)))
        )
    )


def whole_results(entry: Entry, policy: Policy, usable_tokens: int) -> tuple[tuple[PartSize, ...], ...]:
    """Return the parts that leave together, of each result of several parts that is over its cap as a whole.

    The texts come first. What an agent read back stays as it was given.
    """
    wanted = policy.spill.of_result
    if wanted == "part" or not entry.results or len(entry.parts) < 2 or entry.largest <= CAP_TOKENS_MIN:
        return ()
    there = {one.pointer for one in entry.shown}
    parts_of: dict[str, list[PartSize]] = {}
    for part in entry.parts:
        found = result_of(entry, part.pointer)
        if found is not None and not is_read_tool(found.tool, policy) and part.kind in ("text", *MEDIA):
            parts_of.setdefault(found.at, []).append(part)
    groups = []
    for parts in parts_of.values():
        if len(parts) < 2 or any(part.pointer in there for part in parts):
            continue
        texts = [part for part in parts if part.kind == "text"]
        media = [part for part in parts if part.kind != "text"]
        tokens = sum(part.tokens for part in parts)
        cap = part_cap_tokens(entry, parts[0], policy, usable_tokens)
        heavy = tokens > CAP_TOKENS_MIN and sum(part.bytes for part in texts) > bytes_cap(entry, parts[0], policy)
        if tokens <= cap and not heavy:
            continue
        room = cap - sum(part.tokens for part in media)
        shows = wanted == "texts" and texts and room >= min(pointer_room(cap, policy), sum(one.tokens for one in texts))
        groups.append(tuple(texts if shows else [*texts, *media]))
    return tuple(groups)


def over_cap(entry: Entry, part: PartSize, policy: Policy, usable_tokens: int) -> bool:
    """Tell whether a part of a tool, a user or the assistant must leave the window.

    An image counts by its bytes. A text of few tokens stays, whatever its bytes: a pointer would be larger.
    """
    if entry.role not in ("tool", "user", "assistant") or part.sha256:
        return False
    spoken = policy.spill.assistants if entry.role == "assistant" else policy.spill.users
    if spoken == "keep" and not is_result(entry, part):
        return False
    many_bytes = part.bytes > bytes_cap(entry, part, policy)
    if part.kind in MEDIA:
        # what an agent read back it wants to see
        return many_bytes and not (policy.spill.of_result != "part" and is_read_tool(tool_of(entry, part), policy))
    if part.kind != "text" or part.tokens <= CAP_TOKENS_MIN:
        return False
    cap = part_cap_tokens(entry, part, policy, usable_tokens)
    if entry.role == "assistant" and policy.digest.rules_3 and not is_result(entry, part):
        cap = int(cap * ASSISTANTS_MORE)
    return many_bytes or part.tokens > cap


def repeats(entry: Entry, part: PartSize, policy: Policy) -> bool:
    """Tell whether a pointer to an earlier result may stand for *part*.

    That one may be shown no more. Whether it is depends on how fast others were, and may not be asked here.
    """
    wanted = policy.spill.repeated
    far = wanted == "near" and entry.number - entry.same_last > NEAR_MESSAGES
    if not entry.same_as or far or wanted == "keep" or is_read_tool(tool_of(entry, part), policy):
        return False
    return part.kind == "text" and part.tokens > CAP_TOKENS_MIN


def is_medium(entry: Entry, part: PartSize, policy: Policy, usable_tokens: int) -> bool:
    """Tell a tool's result that stays within its cap and is shortened all the same."""
    if part.kind != "text" or part.tokens <= MEDIUM_TOKENS_MIN or not is_result(entry, part):
        return False
    tool = tool_of(entry, part)
    if is_read_tool(tool, policy):
        return False
    limit = policy.spill.medium_bytes
    many_bytes = limit is not None and part.bytes > limit
    return many_bytes or part.tokens > medium_tokens(policy, usable_tokens, tool)


def _batch(entry: Entry, part: PartSize) -> tuple[int, ...]:
    """Return the tokens of the results before *part* in its batch, those of the same message too."""
    mine = result_of(entry, part.pointer)
    if mine is None or len(entry.results) == 1:
        return entry.batch if mine else ()
    sizes = tokens_of_results(entry)
    return (*entry.batch, *(sizes[one.under] for one in takewhile(lambda one: one != mine, entry.results)))


def _whole(policy: Policy, usable_tokens: int) -> int:
    return policy.budget.window if policy.spill.of == "window" else usable_tokens
