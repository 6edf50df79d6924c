"""Offline: a conversation that is folded by hand decides as the path does, with the same times and large parts."""

import base64

import pytest

from actors.host.bootstrap import Runtime
from protocol import codec
from protocol.client import Client
from protocol.facts import ContextServed, DoneFact, HistoryDigested
from protocol.policy import decode
from tests.builders import Talk, assistant, result, user, words
from tests.conftest import Json

IMAGE = "data:image/png;base64," + base64.b64encode(bytes(at % 251 for at in range(90_000))).decode()


def shown(text: str) -> Json:
    return user([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": IMAGE}}])


def run() -> list[Json]:
    """Return a run with an image and a result above 64 KiB, whose kept messages alone are over the trigger."""
    said = [user("Mend the build."), shown("It looks so.")]
    for at in range(20):
        text = "row REF-1 of it\n" * 6000 if at == 3 else f"REF-{at:05} {words(1100)}"
        said += [assistant(None, f"c{at}"), result(f"c{at}", text)]
    return said


def decided(commits: list[codec.Commit]) -> list[DoneFact]:
    return [fact for commit in commits for fact in commit.facts if not isinstance(fact, ContextServed)]


@pytest.mark.parametrize(("seconds", "compactions"), [(1, 6), (25, 9)])
async def test_what_is_folded_by_hand_is_what_the_path_decides(
    working: Runtime, client: Client, name: str, seconds: int, compactions: int
) -> None:
    talk = await client.open(name, policy={"preset": "digitorn-truncate", "budget": {"window": 12_000, "reserve": 0}})
    for at, message in enumerate(run()):
        await talk.append([message], at_ms=1_000_000 + at * seconds * 1000)
        context = await talk.context(unfinished=True)
    records = await working.log.read(talk.at, after=0)
    commits = [codec.decode_commit(record.body) for record in records if record.side == "done"]
    offline = Talk(decode(commits[0].policy or b""), at=talk.at)
    for at, message in enumerate(run()):
        offline.play(message, at_ms=1_000_000 + at * seconds * 1000)
    assert decided(offline.commits) == decided(commits)
    assert offline.shown() == context.messages
    assert sum(isinstance(fact, HistoryDigested) for fact in decided(commits)) == compactions


@pytest.mark.parametrize("preset", ["octopus-fifo", "holmes"])
async def test_a_text_above_64_kib_within_its_cap_is_shown_whole(
    working: Runtime, client: Client, name: str, preset: str
) -> None:
    said = [user("Look."), assistant(None, "c"), result("c", words(14_000))]
    if preset == "octopus-fifo":
        said = [user(words(14_000 + at)) for at in range(5)]
    talk = await client.open(name, policy={"preset": preset})
    await talk.append(said)
    assert (await talk.context()).messages == said
