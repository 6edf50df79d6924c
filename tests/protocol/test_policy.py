"""The policy: layers over layers, every mistake named, one hash for one document."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from actors.squeeze.prompts import PROMPTS
from protocol import policy as policies
from protocol.errors import BadPolicy
from protocol.policy import Policy
from protocol.policy_sections import Budget, Target, Trigger
from protocol.retention import Retention


def test_later_layers_win_key_by_key() -> None:
    service = {"budget": {"window": 1000, "reserve": 100}, "trigger": {"ratio": 0.8}}
    agent = {"budget": {"reserve": 50}}
    resolved = policies.resolve([service, {}, agent])
    assert (resolved.budget, resolved.trigger) == (
        Budget(window=1000, reserve=50, calibrate="apart"),
        Trigger(ratio=0.8),
    )


def test_no_layer_is_the_preset_jettison() -> None:
    assert policies.resolve([]) == policies.resolve([{}]) == policies.resolve([{"preset": "jettison"}])


def test_a_value_may_be_written_as_text() -> None:
    assert policies.resolve([{"budget": {"window": "5000"}}]).budget.window == 5000


def test_layers_are_not_changed() -> None:
    below: dict[str, Any] = {"budget": {"window": 9000}}
    policies.resolve([below, {"budget": {"window": 8000}}])
    assert below == {"budget": {"window": 9000}}


@pytest.mark.parametrize(
    ("layer", "key"),
    [
        ({"budgt": {}}, "budgt"),
        ({"budget": {"windw": 1}}, "budget.windw"),
        ({"budget": 7}, "budget"),
        ({"budget": {"window": 0}}, "budget.window"),
        ({"budget": {"window": "many"}}, "budget.window"),
        ({"budget": {"window": 1000, "reserve": 1000}}, "budget"),
        ({"budget": {"headroom": 1.0}}, "budget"),
        ({"trigger": {"ratio": 1.1}}, "trigger.ratio"),
        ({"trigger": {"ratio": -0.1}}, "trigger.ratio"),
        ({"trigger": {"ratio": math.nan}}, "trigger.ratio"),
        ({"trigger": {"ratio": 0.5}, "target": {"low_water": 0.6}}, "target.low_water"),
        ({"preset": "best"}, "preset"),
        ({"preset": 7}, "preset"),
        ({"hooks": [{"id": "a", "do": {"kind": "explode"}}]}, "hooks[0].do.kind"),
        ({"hooks": [{"id": "a b", "do": {"kind": "compact"}}]}, "hooks[0].id"),
        ({"hooks": [{"id": "a", "do": {"kind": "compact"}}] * 2}, "hooks"),
        ({"hooks": [{"id": "a", "do": {"kind": "call", "name": "ctx.v1.>"}}]}, "hooks[0].do.name"),
        ({"squeeze": {"mode": "sometimes"}}, "squeeze.mode"),
        ({"squeeze": {"attempts": 0}}, "squeeze.attempts"),
        ({"squeeze": {"deadline_seconds": 0}}, "squeeze.deadline_seconds"),
        ({"squeeze": {"deadline_seconds": math.inf}}, "squeeze.deadline_seconds"),
        ({"squeeze": {"prompt_version": "v0"}}, "squeeze.prompt_version"),
        ({"cut": {"pins": ["everybody"]}}, "cut.pins[0]"),
        ({"budget": {"window": 10**30}}, "budget.window"),
        ({"cooldown": {"seconds": "inf"}}, "cooldown.seconds"),
        ({"cooldown": {"seconds": math.inf}}, "cooldown.seconds"),
        ({"hooks": [{"id": "a", "do": {"kind": "inject", "text": "\ud800"}}]}, "hooks[0].do.text"),
        ({"spill": {"per_tool": {"\ud800": {"tokens": 1}}}}, "spill.per_tool"),
        ({"spill": {"bytes": -1}}, "spill.bytes"),
        ([1], ""),
        ("text", ""),
    ],
)
def test_a_mistake_is_named_by_its_key(layer: Any, key: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        policies.resolve([layer])
    assert refused.value.fields == {"key": key}


@pytest.mark.parametrize(
    ("layer", "allowed"),
    [
        ({"squeeze": {"mode": "sometimes"}}, "auto, off, select, squeeze, summarize"),
        ({"cut": {"pins": ["everybody"]}}, "first_user, last_user, system"),
        (
            {"hooks": [{"id": "a", "on": "never", "do": {"kind": "compact"}}]},
            "call_end, call_start, turn_end, turn_start",
        ),
        ({"hooks": [{"id": "a", "do": {"kind": "explode"}}]}, "compact, inject, log, call"),
        ({"trigger": {"expected": "much"}}, "reserve, a number"),
    ],
)
def test_a_word_that_is_not_allowed_is_told_with_those_that_are(layer: Any, allowed: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        policies.resolve([layer])
    assert str(refused.value).endswith(f"; allowed: {allowed}")


def test_equal_marks_are_allowed() -> None:
    both = policies.resolve([{"trigger": {"ratio": 0.6}, "target": {"low_water": 0.6}}])
    assert (both.trigger, both.target) == (Trigger(ratio=0.6), Target(low_water=0.6))


def test_every_prompt_version_of_the_policy_is_known_to_squeeze() -> None:
    for version in PROMPTS:
        resolved = policies.resolve([{"squeeze": {"prompt_version": version}}])
        assert resolved.squeeze.prompt_version == version


def test_usable_tokens_leave_reserve_tools_and_headroom_free() -> None:
    assert Policy(budget=Budget(window=1000, reserve=100, tools=100, headroom=0.1)).usable_tokens == 720
    assert Policy(budget=Budget(window=10, reserve=100)).usable_tokens == 0


def test_a_policy_comes_back_from_its_bytes() -> None:
    wanted = policies.resolve([{"digest": {"keep_blocks": 2}, "cut": {"pins": ["first_user"]}}])
    assert policies.decode(policies.encode(wanted)) == wanted


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"newer":{}}', b'{"budget":{"window":null}}'])
def test_a_damaged_or_newer_policy_is_refused(raw: bytes) -> None:
    with pytest.raises(BadPolicy):
        policies.decode(raw)


def test_the_fingerprint_is_of_the_values_not_of_how_they_were_layered() -> None:
    one = policies.resolve([{"budget": {"window": 1000, "reserve": 10}}])
    same = policies.resolve([{"budget": {"reserve": 10}}, {"budget": {"window": 1000}}])
    assert policies.fingerprint(one) == policies.fingerprint(same) != policies.fingerprint(Policy())


def test_the_fingerprint_of_the_defaults_never_changes_unseen() -> None:
    assert policies.fingerprint(Policy()) == "89bdf0bed9115b98"
    assert [*json.loads(policies.encode(Policy())), "retention"] == list(Policy.__struct_fields__)
    kept = Policy(retention=Retention(archive_after="30d"))
    assert policies.decode(policies.encode(kept)) == kept, "it is written where it says anything"


@pytest.mark.parametrize("after", ["30", "0d", "-1d", "30D", "30d\n", "1.5h", "d"])
def test_a_time_that_nobody_meant_is_refused(after: str) -> None:
    with pytest.raises(BadPolicy, match="erase_after"):
        policies.resolve([{"retention": {"erase_after": after}}])


@pytest.mark.parametrize("raw", [b'{"\xf0reset": 1}', b"[" * 100_000, b"\xff", b""])
def test_bytes_that_are_no_policy_are_refused(raw: bytes) -> None:
    with pytest.raises(BadPolicy):
        policies.decode(raw)


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ({"triger": {}}, r"`triger`; did you mean `trigger`\?"),
        ({"trigger": {"rato": 1}}, r"`rato` - at `\$\.trigger`; did you mean `ratio`\?"),
        ({"nothing": 1}, "`nothing`; known: preset, budget, trigger, "),
    ],
)
def test_an_unknown_key_is_told_with_what_was_meant(layer: dict[str, Any], told: str) -> None:
    with pytest.raises(BadPolicy, match=told):
        policies.resolve([layer])
