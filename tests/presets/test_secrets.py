"""Secrets under each preset: handles, unless an operator's layer says otherwise; and what users told in plain words."""

from __future__ import annotations

import pytest

from actors.spill.policy_layers import Layers, TenantLayer
from actors.squeeze.decide import Ask
from protocol.errors import BadPolicy
from protocol.ids import token
from protocol.presets import PRESETS
from tests.builders import Talk, assistant, result, user, words

PASSWORD, KEY = "hunter2X9z", "sk-proj-Abc123Def456Ghi789Jkl012"
TOLD = f"The database password is {PASSWORD}, you must keep it. Never restart db-7."
KEEPING = sorted(PRESETS.keys() - {"octopus-fifo", "octopus-window"})
SHOW = {"digest": {"secrets": "show"}}


def played(preset: str, *, show: bool = False, model: bool = False) -> tuple[Talk, list[Ask]]:
    """Return a long conversation in which a user told a password, and a command had a key in it."""
    layers = Layers(service=SHOW if show else {})
    layer = {"preset": preset, "budget": {"window": 6000, "reserve": 0}, "squeeze": {"model": "m" if model else ""}}
    talk, asked = Talk(layers.resolved(token("t"), model="", layer=layer).policy), list[Ask]()

    def answer(ask: Ask) -> str:
        asked.append(ask)
        return ""

    talk.answer = answer if model else ""
    call = assistant(None, "k", arguments=f'{{"command": "deploy --token {KEY}"}}')
    talk.play(user(TOLD), assistant("Noted."), user("Deploy it."), call, result("k", f"deployed {words(300)}"))
    for at in range(16):
        found = result(f"c{at}", f"REF-{at:05} {words(700)}")
        talk.play(user(f"Question {at}: what does ORD-{at:05} say?"), assistant(None, f"c{at}"), found)
        talk.play(assistant(f"ORD-{at:05} is fine. {words(350)}"))
    assert 1 not in talk.view().numbers
    return talk, asked


@pytest.mark.parametrize("preset", KEEPING)
def test_a_secret_is_a_handle_in_what_stands_for_old_messages(preset: str) -> None:
    talk, _ = played(preset)
    view = talk.view().body.decode()
    assert "db-7" in view
    assert "[secret " in view
    assert PASSWORD not in view
    assert KEY not in view
    assert not any(secret in item.value for item in talk.state.ledger for secret in (PASSWORD, KEY))


@pytest.mark.parametrize("preset", KEEPING)
def test_where_an_operator_says_so_it_stands_as_it_was_said(preset: str) -> None:
    talk, _ = played(preset, show=True)
    assert PASSWORD in talk.view().body.decode()
    assert "[secret " not in talk.view().body.decode()


@pytest.mark.parametrize("show", [False, True])
def test_a_model_that_squeezes_reads_it_only_then(show: bool) -> None:
    _, asked = played("jettison", show=show, model=True)
    assert asked
    assert any(PASSWORD in ask.user for ask in asked) is show


def test_no_agent_turns_it_on_or_off_and_each_tenant_has_its_own() -> None:
    layers = Layers(tenants={token("acme"): TenantLayer(policy=SHOW)})
    assert layers.resolved(token("acme"), model="", layer={}).policy.digest.secrets == "show"
    assert layers.resolved(token("other"), model="", layer={}).policy.digest.secrets == "handle"
    for tenant, said in (("other", "show"), ("acme", "handle")):
        with pytest.raises(BadPolicy, match=r"digest.secrets is locked by the operator"):
            layers.resolved(token(tenant), model="", layer={"digest": {"secrets": said}})
        left = layers.adopted(token(tenant), model="", layer=b'{"digest": {"secrets": "%s"}}' % said.encode())
        assert left.policy.digest.secrets != said
        assert "digest.secrets" in left.refused
