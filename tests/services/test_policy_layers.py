"""Layers of a policy: an operator's, a tenant's, an agent's; here each service has its own settings."""

from __future__ import annotations

import msgspec
import pytest

from actors.core.state import initial
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings, TenantSection
from actors.services.policies import opening
from actors.spill.policy_layers import Layers, TenantLayer
from protocol import codec
from protocol.client import Client
from protocol.errors import BadPolicy
from protocol.facts import MessageRepaired
from protocol.ids import token
from protocol.service_messages import OpenAsked
from tests.builders import AT
from tests.conftest import at_work, chatter, done_facts, layer, settled


async def test_what_nobody_could_look_at_is_refused_by_the_first_context(
    settings: Settings, running: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy={"budget": {"window": 100, "reserve": 100}})
    await talk.append(chatter(1))
    async with at_work(settings):
        with pytest.raises(BadPolicy, match="leave no token"):
            await talk.context()
        await settled(running, talk.at)
    repairs = [one for one in done_facts(await running.log.read(talk.at, after=0)) if isinstance(one, MessageRepaired)]
    assert [(one.number, one.kind) for one in repairs] == [(0, "refused")]


async def test_operators_give_a_tenant_its_layer_and_lock_keys(settings: Settings, name: str) -> None:
    acme = TenantSection(policy={"budget": {"window": 7_000, "reserve": 0}}, locked=("budget.window",))
    strict = msgspec.structs.replace(settings, tenants={"acme": acme}, locked=("squeeze.model",))
    async with at_work(strict), Client.connect(settings.nats.url) as client:
        for tenant, refused in (("acme", layer(window=9_000)), ("acme", {"squeeze": {"model": "x"}})):
            with pytest.raises(BadPolicy, match="is locked by the operator"):
                await client.open(name, tenant=tenant, policy=refused)
        talk = await client.open(name, tenant="acme", policy={"budget": {"window": 7_000}, "cut": {"pins": []}})
        await talk.append(chatter(1))
        assert (await talk.context()).budget == 7_000
        with pytest.raises(BadPolicy, match=r"budget.window is locked") as locked:
            await talk.set_policy({"budget": {"window": 9_000}})
        assert locked.value.fields["key"] == "budget.window"
        other = await client.open(name, policy=layer(window=9_000))
        await other.append(chatter(1))
        assert (await other.context()).budget == 9_000


def test_a_preset_does_not_get_around_a_lock_and_a_lock_of_nothing_is_refused() -> None:
    layers = Layers(locked=("cut.mode", "spill"), tenants={token("t"): TenantLayer(locked=("digest.mode",))})
    layers.check()
    with pytest.raises(BadPolicy, match="is locked by the operator"):
        layers.resolved(token("t"), model="", layer={"preset": "holmes"})
    assert layers.adopted(token("t"), model="", layer=b'{"preset":"holmes"}').policy.preset == "jettison"
    with pytest.raises(BadPolicy, match=r"the policy has no key 'spill\.pct'"):
        Layers(locked=("spill.pct",)).check()


def test_a_name_that_only_begins_like_a_known_models_is_told_of_with_what_is_assumed() -> None:
    def notes(model: str, asked: dict[str, object], layers: Layers) -> tuple[str, ...]:
        return opening(AT, initial(codec.genesis(AT)), OpenAsked(model=model, policy=asked), layers).notes

    (told,) = notes("openai/gpt-4o-mni", {}, Layers())
    assert "'openai/gpt-4o-mni' is in no table: 128,000 tokens are taken for its window" in told
    assert notes("gpt-4o-mini", {}, Layers()) == ()
    assert notes("gpt-4o-mni", {"budget": {"window": 9_000}}, Layers()) == ()
    assert notes("gpt-4o-mni", {}, Layers(service={"budget": {"window": 9_000}})) == ()
