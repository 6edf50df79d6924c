"""Flow: which actor comes next. README's diagram is written from this table, and a test compares them."""

from __future__ import annotations

from protocol.subjects import Actor

from .state import State
from .view import unspilled

FLOW: tuple[tuple[str, str, str], ...] = (
    ("MessagesAppended", "a part is over its cap, a hook fired, or a policy is to be adopted", "spill"),
    ("ToolOutputSpilled", "the view is over the trigger", "digest"),
    ("MessagesAppended", "the view is over the trigger", "digest"),
    ("HistoryDigested", "still over the target, an LLM may shorten it", "squeeze"),
    ("HistoryDigested", "an LLM is to summarize it", "squeeze"),
    ("HistoryDigested", "still over the target", "cut"),
    ("DigestSqueezed", "still over the target", "cut"),
    ("HistorySummarized", "still over the target", "cut"),
    ("HistoryDigested", "within the target", "ready"),
    ("DigestSqueezed", "within the target", "ready"),
    ("HistorySummarized", "within the target", "ready"),
    ("HistoryCut", "", "ready"),
    ("MessagesAppended", "nothing to do", "ready"),
)
"""Fact, condition, who acts next (`ready`: nobody). A declined or failed stage hands on like a done one."""


_ACTOR_OF: dict[str, Actor] = {
    "MessagesAppended": "spill",
    "ToolOutputSpilled": "spill",
    "HistoryDigested": "digest",
    "DigestSqueezed": "squeeze",
    "HistorySummarized": "squeeze",
    "HistoryCut": "cut",
}
"""Whose arrow begins at a fact; a new message is looked at by spill."""


def next_actor(state: State) -> Actor | None:
    """Return who has to act on *state*, or none if it is ready."""
    if state.erased:
        return None
    if state.policy is None:
        return "spill" if state.messages or state.terms.name or state.heard.unrecorded else None
    if state.heard.unrecorded or state.agenda.due or unspilled(state):
        return "spill"
    return state.episode.stage if state.episode else None


def mermaid() -> str:
    """Return the flow as a Mermaid diagram."""
    lines = ["flowchart LR", '    agent(["agent"]) -- MessagesAppended --> spill']
    for fact, condition, follower in FLOW:
        if (fact, follower) == ("MessagesAppended", "spill"):
            continue
        source = _ACTOR_OF[fact]
        target = 'ready(["ready"])' if follower == "ready" else follower
        label = f"{fact}: {condition}" if condition else fact
        lines.append(f'    {source} -- "{label}" --> {target}')
    return "\n".join(lines)
