"""Judge: whether the log of a run is what its client wrote down itself: nothing lost, twice, or of others."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .transcripts import Event, Events

_CALL = re.compile(r"(?:call|toolu)_(.+)x\d+_\d+")
"""A call of the scripted model: of which run it is stands in its id."""


def runs_in(events: Events) -> set[str]:
    """Return the runs whose calls are among *events*."""
    return {found[1] for _, ident, _ in events if (found := _CALL.fullmatch(ident))}


def faults(logs: list[Events], sessions: list[Events], *, one_each: bool) -> list[str]:
    """Return what is wrong with the *logs* of one run, whose client wrote *sessions*.

    *one_each*: each session must be one log, from its beginning to its end. Else a session may be in several logs, as
    where its client summarised it and began anew.
    """
    logs, sessions = [_closed(log) for log in logs], [_closed(session) for session in sessions if session]
    out = [f"log {at}: {why}" for at, log in enumerate(logs) if (why := _strange(log, sessions))]
    for at, session in enumerate(sessions):
        lost = [event for event in session if not any(_same(event, other) for log in logs for other in log)]
        out += [f"session {at}: {len(lost)} are in no log, the first is {lost[0]!r:.200}"] if lost else []
    if one_each and sorted(map(len, logs)) != sorted(map(len, sessions)):
        out.append(f"logs of {sorted(map(len, logs))} events, sessions of {sorted(map(len, sessions))}")
    return out


def _strange(log: Events, sessions: list[Events]) -> str:
    """Return the first event of *log* that is in the order of no session; empty where all are of one."""
    best: tuple[int, Event | None] = (-1, None)
    for session in sessions:
        rest: Iterable[Event] = iter(session)
        for at, event in enumerate(log):
            if not any(_same(other, event) for other in rest):
                best = max(best, (at, event), key=lambda one: one[0])
                break
        else:
            return ""
    return f"event {best[0]} is in no session: {best[1]!r:.200}"


def _same(written: Event, logged: Event) -> bool:
    """Tell whether a client wrote down what the log has; some results are longer there: as the model was told them."""
    texts = written[2].strip() in logged[2] if written[0] == "gets" else written[2].strip() == logged[2].strip()
    return written[:2] == logged[:2] and texts


def _closed(events: Events) -> Events:
    """Return *events* without the last words, which no log has before their client sends them back."""
    end = len(events)
    while end and events[end - 1][0] == "says":
        end -= 1
    return events[:end]
