"""The provider of the faults: strict, slow enough to be left in the middle, and at times broken itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.gateway.model import API_OF, EVENTS, JSON, Json, Reply, refusal, refused, said, size_of
from tests.gateway.provider import CUT, Answer, Asked

READS_EVERY, BOTH_EVERY = 4, 9
"""Turns in which the model reads back first, and those in which it calls its agent's tool at the same time."""

NO_READS = 9
"""The part of a turn in which the model was not given the tool to read back."""

BEAT_SECONDS = 0.01
"""Between two pieces of a stream."""

READ = ("read_artifact", {"key": "messages:1", "lines": "1-3"})


def replies(run: str, place: int) -> Reply:
    """Return what the model says in a part of a turn; in turn 0 it has seen enough."""
    turn, leg = divmod(place, 10)
    if not turn:
        return Reply(text=f"All is well, says {run}.", thinks="done")
    look = ("log_of", {"service": run, "turn": turn})
    if leg == NO_READS:
        return Reply(text=f"Turn {turn}: on, as it came.", thinks=f"thought {turn}", calls=(look,))
    if turn % BOTH_EVERY == 0:
        return Reply(text=f"Turn {turn}: both.", thinks=f"thought {turn}", calls=(READ, look))
    if turn % READS_EVERY == 0 and not leg:
        return Reply(text=f"Turn {turn}: wait.", thinks=f"thought {turn}", calls=(READ,))
    return Reply(text=f"Turn {turn}: on.", thinks=f"thought {turn} {leg}", calls=(look,))


@dataclass(kw_only=True)
class FaultyModel:
    """A strict model that is told run and turn by a header, since a view may hold few turns."""

    window: int
    replies: Callable[[str, int], Reply] = replies
    """What it says for a run, and ten times a turn with the part of it."""
    broken: str = ""
    """What it does with some of the requests now: `cut`, `busy`, or nothing."""
    done: Counter[str] = field(default_factory=Counter)
    runs: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Whose request had a word of another run in it."""
    _asked: int = 0

    def __call__(self, asked: Asked) -> Answer:
        self._asked += 1
        if self.broken == "busy" and self._asked % 2:
            self.done["busy"] += 1
            busy = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
            return Answer(status=529, headers={**JSON, "retry-after": "1"}, pieces=(busy,))
        body, api = asked.json, API_OF[asked.target]
        size = size_of(body)
        if why := refusal(api, body, size=size, window=self.window):
            self.refused.append(why)
            return refused(api, why, size=size, window=self.window)
        run, place = _place(asked, body)
        self.foreign += [f"{run} was sent {other}'s" for other in self.runs - {run} if other.encode() in asked.body]
        # an id that no other answer has, one to the same question neither
        answer = said(api, body, self.replies(run, place), ident=f"{run}-{place}_{self._asked}", size=size)
        if self.broken == "cut" and self._asked % 3:
            self.done["cut"] += 1
            whole = b"".join(piece for piece in answer.pieces if isinstance(piece, bytes))
            return Answer(headers=answer.headers, pieces=(whole[: len(whole) * 2 // 3], BEAT_SECONDS, CUT))
        if answer.headers == EVENTS:
            return Answer(headers=EVENTS, pieces=tuple(one for piece in answer.pieces for one in (piece, BEAT_SECONDS)))
        return Answer(headers=answer.headers, pieces=(BEAT_SECONDS * 4, *answer.pieces))


def _place(asked: Asked, body: Json) -> tuple[str, int]:
    """Return whose turn it is, with its part: the model goes on within it after it has read back."""
    run, _, turn = asked.header("x-run").rpartition("/")
    place = int(turn) * 10
    if '"read_artifact"' not in json.dumps(body.get("tools")):
        return run, place + NO_READS
    return run, place + (f"-{place}_" in _last_result(body))


def _last_result(body: Json) -> str:
    """Return the id of the call that the last message answers; empty if it answers none."""
    last = (body.get("messages") or body["input"])[-1]
    content = last.get("content")
    block = content[-1] if isinstance(content, list) and content and isinstance(content[-1], dict) else {}
    return str(last.get("tool_call_id") or last.get("call_id") or block.get("tool_use_id") or "")
