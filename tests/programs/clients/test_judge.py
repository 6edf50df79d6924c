"""The judge of real clients sees what a log must not have."""

from __future__ import annotations

import pytest

from .judge import faults, runs_in
from .transcripts import Events, events_of

SESSION: Events = events_of(
    [
        {"role": "user", "content": "Read the logs one by one."},
        {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "call_ax1_0", "function": {"name": "bash"}}]},
        {"role": "tool", "tool_call_id": "call_ax1_0", "content": "line 1"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_ax2_0", "name": "bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_ax2_0", "content": "line 2"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All is read."}]},
    ]
)


def test_a_log_that_is_its_session_has_no_fault() -> None:
    assert [kind for kind, _, _ in SESSION] == ["asks", "says", "calls", "gets", "calls", "gets", "says"]
    assert runs_in(SESSION) == {"a"}
    # the last words are not sent back yet
    assert faults([SESSION[:-1]], [SESSION], one_each=True) == []
    # two logs after a summary, and the model was told more than its client wrote down
    longer = [(*one[:2], f"{one[2]}\n<exit 0>") if one[0] == "gets" else one for one in SESSION]
    assert faults([longer[:4], longer[4:]], [SESSION], one_each=False) == []


@pytest.mark.parametrize(
    ("log", "one_each"),
    [
        (SESSION[:3] + SESSION[4:], True),
        (SESSION[:4] + SESSION[3:], True),
        ([SESSION[0], *SESSION[4:6], *SESSION[1:4]], True),
        ([*SESSION[:6], ("gets", "call_bx1_0", "of another")], False),
        (SESSION[:4], False),
    ],
    ids=["lost", "twice", "in another order", "of another", "cut short"],
)
def test_what_a_log_must_not_have_is_seen(log: Events, one_each: bool) -> None:
    assert faults([log], [SESSION], one_each=one_each)


def test_what_the_gateway_read_back_is_not_compared() -> None:
    read = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "function": {"name": "read_artifact"}}]}
    assert events_of([read, {"role": "tool", "tool_call_id": "x", "content": "old"}]) == []
