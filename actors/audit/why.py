"""Why: what happened to one message, by which rule, at which threshold, and how to read what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actors.core.caps import medium_tokens, over_cap, part_cap_tokens, repeats, tool_cap, tool_of
from actors.core.entry import Entry
from actors.core.known_facts import known
from actors.core.pressure import target_tokens, trigger_tokens
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.model_info.prices import price_of
from actors.runtime.fold import Decision, head, tokens_of
from actors.runtime.said_log import Saying, sayings
from protocol.errors import BadMessage, NotFound
from protocol.facts import (
    AccountSqueezed,
    ContextServed,
    ConversationRewound,
    HistoryAccounted,
    HistoryDigested,
    HistoryExpanded,
    MessageRepaired,
    RepairKind,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.formats import messages
from protocol.history import Event, ModelUse, Why
from protocol.ids import Address
from protocol.policy import Policy
from protocol.subjects import FIRST_ACTOR
from storage.ports import Record

from .call_views import FACT, CallView, cut_view
from .loss import recorded
from .text import digest_text, said_text
from .trail import DIGEST, Touch, cut_reason, fact_about, stage_of, touches, trace_of, trail
from .versions import UNSENT, unsent_views

VALUE_CHARS_MAX = 200

REPAIRS: dict[RepairKind, str] = {
    "refused": "it cannot be read, and no view shows it",
    "orphan_result": "no call with this id waits for a result, so it is shown as a user message",
    "unanswered_calls": "others spoke over calls without a result, and a view says so in its place",
    "duplicate_call_id": "an earlier call has the same id, so it is shown with another one",
    "lone_surrogates": "it has halves of characters, which are shown as U+FFFD",
    "empty_tool_calls": "an empty list of calls is left out",
}
"""Why a message is shown otherwise than it was said, by the kind of its repair."""


def why(at: Address, records: Sequence[Record], *, number: int, version: int | None = None) -> Why:
    """Return the history of message *number* up to *version*, and how it is shown there. Raises `NotFound`.

    At a version that served a view which was cut for its call, that is how the call was shown it.
    """
    history: list[Event] = []
    last: Decision | None = None
    call: CallView | None = None
    for last in trail(at, records, upto=version):
        call = cut_view(last, about=(number,))
        history += _events(last, number, call, digested=_is_digested(last.before, number))
    unsent = unsent_views(records) if any(one.fact == FACT for one in history) else frozenset()
    history = [
        msgspec.structs.replace(one, rule=f"{one.rule}; {UNSENT}") if one.version in unsent else one for one in history
    ]
    if last is None:
        raise NotFound(f"{at} has no version yet: no worker has seen it", address=str(at))
    state = last.after if version is not None else head(last, at, records)
    entries, digest = {entry.number: entry for entry in state.entries}, state.digest
    if call is not None and version is not None:
        entries, digest = call.entries, call.digest
    if number == DIGEST:
        now = "in the view" if digest else "not in the view"
        told = Why(address=str(at), version=state.version, number=DIGEST, role="digest", now=now)
        return msgspec.structs.replace(told, text=digest_text(state), history=tuple(history))
    if not 1 <= number <= state.messages:
        has = f"it has 1 to {state.messages}" if state.messages else "it has none"
        raise NotFound(f"{at}@{state.version} has no message {number}; {has}", address=str(at), number=number)
    entry = entries.get(number)
    saying = next(one for one in sayings(at, records) if one.number == number)
    return Why(
        address=str(at),
        version=state.version,
        number=number,
        role=entry.role if entry else _role(saying),
        now=_shown(entry),
        said_time=saying.record.time,
        said_seq=saying.record.seq,
        said_trace_id=trace_of(saying.record),
        text=said_text(saying.message.raw),
        history=tuple(history),
        read=tuple(_ways(at, number, entry, history, digest)),
    )


def dollars_of(fact: object) -> float | None:
    """Return the price of the LLM behind *fact*: as recorded, else by today's prices; None where there is none."""
    recorded = getattr(fact, "cost_microdollars", 0)
    if recorded:
        return float(recorded) / 1e6
    price = price_of(getattr(fact, "model", ""))
    if price is None:
        return None
    return float(getattr(fact, "input_tokens", 0) * price.input + getattr(fact, "output_tokens", 0) * price.output)


def _events(decision: Decision, number: int, call: CallView | None, *, digested: bool) -> list[Event]:
    found = []
    done = [(touch, fact_about(decision.commit, touch.number)) for touch in touches(decision)]
    if call is not None:
        done += [(touch, call.fact) for touch in call.touches]
    for touch, fact in done:
        # what happens to the digest happens to every message that it stands for
        later = touch.number == DIGEST and digested and touch.did != "digested"
        if touch.number == number or later:
            found.append(_event(decision, touch, fact))
    if not found and number != DIGEST:
        for fact in decision.commit.facts:
            if getattr(fact, "number", None) == number or _looked_at(fact, number):
                found.append(_event(decision, _untouched(decision, fact, number), fact))
    return found


def _looked_at(fact: object, number: int) -> bool:
    """Tell whether the first actor, which looks at each message alone, left this one as it is."""
    return getattr(fact, "stage", "") == FIRST_ACTOR and getattr(fact, "boundary", 0) == number


def _untouched(decision: Decision, fact: object, number: int) -> Touch:
    entry = next((one for one in decision.after.entries if one.number == number), None)
    tokens = entry.tokens if entry else 0
    name = type(fact).__name__
    return Touch(
        number=number,
        role=entry.role if entry else "",
        version=decision.commit.version,
        did=known(fact).left or name,
        fact=name,
        before_tokens=tokens,
        after_tokens=tokens,
    )


def _event(decision: Decision, touch: Touch, fact: object | None) -> Event:
    commit, state = decision.commit, decision.before
    return Event(
        version=commit.version,
        time=decision.record.time,
        seq=decision.record.seq,
        stage=stage_of(commit),
        did=touch.did,
        fact=touch.fact,
        rule=_rule(state, fact) if fact is not None else "",
        policy=_policy(state.policy, known(fact).rests_on),
        before_tokens=touch.before_tokens,
        after_tokens=touch.after_tokens,
        commit_id=commit.commit_id,
        hash=commit.hash.hex(),
        policy_hash=commit.policy_hash,
        trace_id=trace_of(decision.record),
        artifact=getattr(fact, "sha256", ""),
        loss=recorded(fact),
        llm=_asked(fact) if getattr(fact, "prompt_hash", "") else None,
    )


def _rule(state: State, fact: Any) -> str:
    """Return the reason of *fact* with its numbers; of a fact that is not known here, what it says itself."""
    match fact:
        case ToolOutputSpilled():
            return _spilled(state, fact)
        case ToolOutputTrimmed():
            return f"a part of {fact.tokens:,} tokens was shortened and not stored: {fact.reason}"
        case MessageRepaired():
            return REPAIRS[fact.kind] + (f": {fact.detail}" if fact.detail else "")
        case ConversationRewound():
            return f"somebody wanted the context of version {fact.to_version} again, up to message {fact.upto}"
        case HistoryExpanded():
            return f"somebody wanted it in full: {fact.before_tokens:,} tokens became {fact.after_tokens:,}"
        case ContextServed():
            # a call gets the standing budget, or less: what it asked for, or its model's window
            due = "" if fact.budget < state.usable_tokens else ", to which no compaction had come down yet"
            return f"the conversation had {tokens_of(state):,} tokens; {cut_reason(fact)}{due}"
        case _:
            pass
    if known(fact).did:
        return f"{_pressure(state, fact)}; {_extent(fact)}"
    told = getattr(fact, "reason", "") or getattr(fact, "error", "") or getattr(fact, "detail", "")
    return str(told) or _fields(fact)


def _spilled(state: State, fact: ToolOutputSpilled) -> str:
    size = f"a part of {fact.tokens:,} tokens and {fact.bytes:,} bytes"
    entry = next((one for one in state.entries if one.number == fact.number), None)
    part = next((one for one in entry.parts if one.pointer == fact.pointer), None) if entry else None
    if entry is None or part is None or state.policy is None:
        return size
    policy, usable = state.policy, state.usable_tokens
    if part.sha256:
        return f"{size} was uploaded apart from its message"
    tool = tool_of(entry, part)
    cap, bytes_max = part_cap_tokens(entry, part, policy, usable), tool_cap(policy, tool).bytes
    if over_cap(entry, part, policy, usable):
        limit = policy.spill.bytes if bytes_max is None else bytes_max
        # a medium counts by its bytes alone
        of_tokens = part.kind == "text" and part.tokens > cap
        over = [f"{cap:,} tokens"] * of_tokens + [f"{limit:,} bytes"] * (part.bytes > limit)
        return f"{size} is over the cap of {' and of '.join(over)}"
    if repeats(entry, part, policy):
        return f"{size} says the same as message {entry.same_as}"
    medium = medium_tokens(policy, usable, tool)
    return f"{size} is over {medium:,} tokens, above which a tool's result is shortened (its cap is {cap:,})"


def _pressure(state: State, fact: Any) -> str:
    """Return the threshold that was crossed."""
    cause = getattr(state.episode, "cause", "trigger")
    view = f"at message {fact.boundary} the view had {fact.before_tokens:,} of {state.usable_tokens:,} usable tokens"
    if isinstance(fact, HistoryDigested) and cause == "trigger":
        return f"{view}, over the trigger of {trigger_tokens(state):,} (down to {target_tokens(state):,})"
    if isinstance(fact, AccountSqueezed):
        return f"{view}, and a model may shorten the account whenever messages left for it"
    why = f" (begun by: {cause})" if cause != "trigger" else ""
    return f"{view}, over the target of {target_tokens(state):,}{why}"


def _extent(fact: Any) -> str:
    if hasattr(fact, "level"):
        return f"{len(fact.dropped)} messages dropped, {len(fact.trimmed)} shortened, level {fact.level}"
    if isinstance(fact, AccountSqueezed):
        told = "a model's prose" if fact.prose else "nothing"
        struck = f", of which {len(fact.struck)} sentences were struck out" if fact.struck else ""
        return f"{len(fact.left)} steps of the account became {told}{struck}; it has {fact.digest_tokens:,} tokens now"
    if isinstance(fact, HistoryAccounted) and fact.account is None:
        shorter = len({trim.number for trim in fact.trimmed})
        return f"{shorter} old {'result was' if shorter == 1 else 'results were'} shortened, no message left"
    if hasattr(fact, "through"):
        kept = f" ({len(fact.kept)} of them stay)" if getattr(fact, "kept", ()) else ""
        what = "an account" if isinstance(fact, HistoryAccounted) else f"{len(fact.items)} notes"
        return f"messages up to {fact.through}{kept} became {what} of {fact.digest_tokens:,} tokens"
    return f"the digest has {fact.digest_tokens:,} tokens now, {len(fact.items)} values put back"


def _fields(fact: Any) -> str:
    told = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return ", ".join(f"{name} {value}" for name, value in told.items() if isinstance(value, (int, str)))[
        :VALUE_CHARS_MAX
    ]


def _policy(policy: Policy | None, keys: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    document: Any = msgspec.to_builtins(policy)
    for key in keys:
        value: Any = document
        for step in key.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            found[key] = value
    return found


def _asked(fact: Any) -> ModelUse:
    return ModelUse(
        model=fact.model,
        prompt_hash=fact.prompt_hash,
        input_tokens=fact.input_tokens,
        output_tokens=fact.output_tokens,
        attempts=fact.attempts,
        dollars=dollars_of(fact),
    )


def _is_digested(state: State, number: int) -> bool:
    if number == DIGEST or state.digest is None or number > state.digest.through:
        return False
    return all(entry.number != number for entry in state.live)


def _role(saying: Saying) -> str:
    try:
        return str(messages.decode(saying.message.raw).get("role", ""))
    except BadMessage:
        return ""


def _shown(entry: Entry | None) -> str:
    if entry is None:
        return "not in the view"
    return "changed" if _is_changed(entry) else "verbatim"


def _is_changed(entry: Entry) -> bool:
    """Tell whether a view shows it otherwise than it was said: parts of it spilled or cut, or its form repaired."""
    called = all(result.call for result in entry.results)
    return bool(entry.shown or entry.renamed or entry.orphan or entry.surrogates or not called)


def _ways(
    at: Address, number: int, entry: Entry | None, history: Sequence[Event], digest: Digest | None
) -> Iterable[str]:
    if entry is not None and not _is_changed(entry):
        return
    tenant = "" if at.tenant == "default" else f" --tenant {at.tenant}"
    for key in dict.fromkeys(event.artifact for event in history if event.artifact):
        yield f'its artifact: jettison artifact {key[:16]}{tenant}; the agent: read_artifact("{key[:16]}")'
    told = entry is not None or (digest is not None and number <= digest.through)
    hint = "" if told else " (nothing in the view says so)"
    yield f'the message: jettison why {at} {number} --full; the agent: read_artifact("messages:{number}"){hint}'
