"""What has to be true of each log in the end."""

from __future__ import annotations

from collections.abc import Sequence

from actors.host.bootstrap import Runtime
from protocol.ids import address
from tests.programs.gateway_faults.agents import Json
from tests.programs.gateway_faults.checks import spoken
from tests.programs.gateway_soak.agents import Agent, Talk
from tests.promises.harness import said_whole


async def wrong_logs(agents: Sequence[Agent], *, running: Runtime) -> list[str]:
    """Return what is wrong in any log: it says something else than its agent, or what another agent said."""
    wrong: list[str] = []
    for agent in agents:
        others = [one.run for one in agents if one is not agent]
        for talk in agent.talks:
            if not talk.sent:
                continue
            if not talk.name:
                wrong.append(f"{agent.run} ended a conversation that the gateway did not manage")
                continue
            said = await said_whole(running, address(talk.name))
            wrong += [f"{talk.name} of {agent.run}: {one}" for one in _unlike(said, talk)]
            words = str(said)
            wrong += [f"{talk.name} of {agent.run} holds words of {one}" for one in others if one in words]
    wrong += [f"a dead letter: {kept.letter}" async for kept in running.dead_letters.all()]
    return wrong


def _unlike(said: list[Json], talk: Talk) -> list[str]:
    """Return how a log is unlike its agent's history; what its agent did not see are reads, each pair whole."""
    sent, known = spoken(talk.history[: talk.sent]), spoken(said)
    own = {ident for _, ident, _ in sent}
    reads = [(kind, ident) for kind, ident, _ in known if ident not in own]
    wrong = [f"half a pair of {ident}" for kind, ident in reads if (_other(kind), ident) not in reads]
    if len(reads) != len(set(reads)):
        wrong.append("it holds a read twice")
    kept = [one for one in known if one[1] in own]
    if kept != sent:
        at = next((n for n, (a, b) in enumerate(zip(kept, sent, strict=False)) if a != b), min(len(kept), len(sent)))
        there, here = str(kept[at : at + 1])[:120], str(sent[at : at + 1])[:120]
        wrong.append(f"{len(kept)} said, calls and results in the log, {len(sent)} sent; {at}: {there}, not {here}")
    return wrong


def _other(kind: str) -> str:
    return "call" if kind == "result" else "result"
