"""Golden: what rules version 1 decided is decided again, byte for byte, for ever.

A change that is meant raises `codec.RULES_VERSION` first; then
`TESTS_GOLDEN=write .venv/bin/python -m pytest tests/core/test_golden.py` writes the files of the new version beside
those of the old one. Written files are never changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from actors.core.older_rules import policy_bytes, policy_under
from actors.runtime.fold import fold
from protocol import codec
from protocol import policy as policies
from protocol.facts import CompactionRequested
from protocol.ids import address
from protocol.policy import Policy
from storage.ports import Record
from tests.builders import Talk, assistant, policy, result, system, user, words

GOLDEN = Path(__file__).parent.parent / "data" / "golden"


def compacted(wanted: Policy | None = None, *, rules: str = "") -> Talk:
    """Return a conversation in which every stage acts."""
    sections: dict[str, dict[str, Any]] = {
        "squeeze": {"mode": "squeeze", "model": "m"},
        "target": {"min_gain": 0.01},
        "digest": {"keep_blocks": 3},
    }
    talk = Talk(wanted or policy(2000, **sections), at=address("golden", "tests"), rules=rules)
    talk.answer = "<think>hm</think>The user wants ORD-10042 fixed."
    log = "\n".join(f"step {number} of {'job failed' if number == 300 else 'job'} done" for number in range(600))
    names = " ".join(f"read_order_{{turn}}_{step}x" for step in range(12))
    talk.play(system("You are an agent. You must never guess."), user("Fix ORD-10042 in /srv/app/main.py."))
    for turn in range(6):
        talk.play(
            assistant(f"We decided to look at {names.format(turn=turn)}.", f"a{turn}", f"b{turn}"),
            result(f"b{turn}", log if turn == 1 else words(120)),
            result(f"a{turn}", f"ValueError: bad value in step_{turn} of https://x.example/{turn}"),
            user(f"Then try REF-{1000 + turn}. {words(60)}"),
        )
    talk.say(CompactionRequested(budget=400))
    talk.settle()
    talk.play(user(words(100)), assistant(words(900)), user("end"))
    return talk


def repaired(wanted: Policy | None = None, *, rules: str = "") -> Talk:
    """Return a conversation in which everything has to be repaired."""
    talk = Talk(wanted or policy(1000), at=address("repaired", "tests"), rules=rules)
    talk.hear(b"garbage")
    talk.play(
        {"role": "robot"},
        user("a\ud800b"),
        assistant(None, "c", "c"),
        result("c", "one"),
        result("nobody", "lost"),
        assistant("x") | {"tool_calls": []},
        user("bye"),
    )
    return talk


SUMMARY = """State:
- A listing of parts was read for ORD-10042; nothing was changed for it.
- The record of the order says that it is late; it was looked up and left as it is.
- One key is missing where the program loads; its cause is open.
- A shell printed a text of words in which nothing stood that helps.
- The folder of the program was listed, and its parts have sizes near one another.
- The trace names the file that raised, and the agent went on to the next part.
Next:
- Look at the part that comes after, and tell what was found."""
"""What a model says of any part of the run."""


def accounted(wanted: Policy | None = None, *, rules: str = "") -> Talk:
    """Return a conversation that becomes an account, which a model retells."""
    layer = {"budget": {"window": 2_400, "reserve": 0}, "squeeze": {"model": "m", "window": 16_000}}
    talk = Talk(wanted or policies.resolve([layer]), at=address("accounted", "tests"), rules=rules)
    talk.answer = SUMMARY
    talk.play(user("Find out why ORD-10042 is late. You must never guess."))
    for turn in range(14):
        listing = "\n".join(f"-rw-r--r-- 1 root root {900 + at} Apr 30 08:32 part_{turn}_{at}.py" for at in range(25))
        trace = f'Traceback (most recent call last):\n  File "/srv/app/a.py", line {turn}, in load\nKeyError: {turn}'
        record = {"id": f"ORD-{turn}", "user": "ana_lee_77", "status": "late", "paid": [turn], "notes": "n " * 90}
        printed = [listing, f"{listing}\n{trace}", json.dumps(record), f"{words(200)}\n(shell: sh)\nsh-5$"][turn % 4]
        talk.play(
            assistant(f"Next I look at part {turn}.", f"c{turn}", arguments=f'{{"path": "/srv/app/{turn}.py"}}'),
            result(f"c{turn}", printed),
        )
    talk.play(assistant(f"What I found: REF-77 timed out after 730 ms. {words(90)}"), user("Go on."))
    return talk


def shortened(wanted: Policy | None = None, *, rules: str = "") -> Talk:
    """Return a conversation whose results become far shorter than rules version 3 expects of them before it looks."""
    layer = {"budget": {"window": 1_200, "reserve": 0}, "squeeze": {"mode": "off"}}
    talk = Talk(wanted or policies.resolve([layer]), at=address("shortened", "tests"), rules=rules)
    talk.play(user("Look at the logs of all runs."))
    for run, lines in enumerate((32, 8, 35, 28)):
        log = "\n".join(f"run {run} line {at}: request {at * 7919} took {at % 97} ms" for at in range(lines))
        talk.play(
            assistant(f"I look at run {run}.", f"c{run}", arguments=f'{{"run": {run}}}'),
            result(f"c{run}", log),
        )
    return talk


def warned(wanted: Policy | None = None, *, rules: str = "") -> Talk:
    """Return a conversation whose log and whose text warn two hundred times before they fail once."""
    layer = {"budget": {"window": 4_000, "reserve": 0}, "squeeze": {"mode": "off"}}
    talk = Talk(wanted or policies.resolve([layer]), at=address("warned", "tests"), rules=rules)
    parts = [f"{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(250)]
    text = [f"the part {part} was slow: warning" for part in parts]
    text[200] = "the heap is exhausted: OutOfMemory error"
    talk.play(user("Why is it slow?"))
    for call, lead in (("c0", "2026-11-21T10:00:00Z WARN "), ("c1", "")):
        talk.play(assistant("I look.", call), result(call, "\n".join(lead + line for line in text)))
    return talk


CASES = {"compacted": compacted, "repaired": repaired, "accounted": accounted, "shortened": shortened, "warned": warned}
OLDER = [
    (file.stem.rpartition("-")[0], file.stem.rpartition("-")[2])
    for file in sorted(GOLDEN.glob("*.json"))
    if file.stem.rpartition("-")[2] in codec.RULES_WRITTEN
]
"""Name and rules of what is recorded; an account has been written since rules version 2.

A case that is added later is recorded for the older rules by the release whose newest they are.
"""


def recorded(talk: Talk) -> dict[str, Any]:
    return {
        "log": [[record.side, record.body.hex()] for record in talk.records],
        "hash": talk.state.hash.hex(),
        "view_hash": talk.view().hash,
    }


def replayed(talk: Talk, records: list[Record]) -> Talk:
    """Fold *records* into *talk*."""
    for record in records:
        if record.side == "said":
            talk.hear(record.body)
        else:
            # its bytes as they are: encoded anew they have the fields that facts got since
            talk.state = fold(talk.state, (record,))
    return talk


@pytest.mark.parametrize("name", CASES)
def test_the_rules_decide_what_they_decided(name: str) -> None:
    file = GOLDEN / f"{name}-{codec.RULES_VERSION}.json"
    talk = CASES[name]()
    if os.environ.get("TESTS_GOLDEN") == "write":
        assert not file.exists(), f"{file.name} is recorded; a meant change raises RULES_VERSION"
        file.write_text(json.dumps(recorded(talk), indent=1) + "\n", encoding="utf-8")
    assert recorded(talk) == json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "rules"), OLDER)
def test_older_rules_that_may_still_be_written_decide_what_they_decided(name: str, rules: str) -> None:
    golden = json.loads((GOLDEN / f"{name}-{rules}.json").read_text(encoding="utf-8"))
    adopted = next(codec.decode_commit(bytes.fromhex(body)) for side, body in golden["log"] if side == "done")
    assert recorded(CASES[name](policies.decode(adopted.policy), rules=rules)) == golden


def test_releases_of_older_rules_are_given_no_value_that_they_do_not_know() -> None:
    wanted = policies.resolve([{"spill": {"shown": "in_order"}}])
    assert {rules: b"in_order" in policy_bytes(rules, wanted) for rules in codec.RULES_WRITTEN} == {
        "1": False,
        "2": False,
        "3": True,
    }
    assert policy_under("1", policies.resolve([{"spill": {"shown": "first"}}])).spill.shown == "in_order"


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.json")), ids=lambda file: file.stem)
def test_every_recorded_log_folds_to_its_recorded_view(file: Path) -> None:
    golden = json.loads(file.read_text(encoding="utf-8"))
    name = file.stem.rpartition("-")[0]
    records = [
        Record(seq=seq, side=side, body=bytes.fromhex(body)) for seq, (side, body) in enumerate(golden["log"], 1)
    ]
    talk = replayed(Talk(at=address("golden" if name == "compacted" else name, "tests")), records)
    assert (talk.state.hash.hex(), talk.view().hash) == (golden["hash"], golden["view_hash"])


def test_the_golden_conversations_show_every_fact_of_the_rules() -> None:
    kinds = {type(fact).__name__ for make in CASES.values() for fact in make().facts}
    assert kinds == {
        "ToolOutputSpilled",
        "MessageRepaired",
        "HistoryDigested",
        "DigestSqueezed",
        "HistoryAccounted",
        "AccountSqueezed",
        "HistoryCut",
        "CompactionDeclined",
    }
