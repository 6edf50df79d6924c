"""Reading back a range: whole where it fits, else an outline to read on from, and hits with their messages."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from actors.host.bootstrap import Runtime
from protocol.client import Client, Conversation
from protocol.errors import NotFound
from protocol.limits import CLAIM_BYTES_MIN
from tests.builders import assistant, result, user
from tests.conftest import Json, chatter, layer, settled

ANSWER_BYTES = 16_384
LOG = "\n".join(f"line {number} of the build" for number in range(1, 20_001))
KEY = hashlib.sha256(LOG.encode()).hexdigest()[:16]


def looks(ident: str, path: str) -> Json:
    return assistant(None, ident, arguments=json.dumps({"path": path}))


def run(steps: int, *, words: int = 300) -> list[Json]:
    """Return a task and *steps* calls with their results: message 2n asks for `src/n.py`, 2n+1 answers."""
    out = [user("Mend the build.\nTouch no test.")]
    for step in range(1, steps + 1):
        out += [looks(f"c{step}", f"src/{step}.py"), result(f"c{step}", f"needle {step}\n" + "so it is " * words)]
    return out


async def told(working: Runtime, client: Client, name: str, said: list[Json]) -> Conversation:
    talk = await client.open(name, policy=layer())
    for start in range(0, len(said), 21):
        await talk.append(said[start : start + 21])
    await talk.context()
    # a view may be served before a result is stored
    await settled(working, talk.at)
    return talk


def followed(line: str) -> str:
    """Return the key that the last line of an answer says to go on with."""
    found = re.search(r'go on with "(messages:[\d-]+)"', line)
    assert found, line
    return found[1]


async def test_a_range_too_long_to_show_is_an_outline(working: Runtime, client: Client, name: str) -> None:
    talk = await told(working, client, name, run(60, words=60))
    first, *lines = (await talk.read_artifact("messages:1-121")).split("\n")
    assert first.startswith("[Messages 1-121, one line each")
    assert len(lines) == 121
    assert re.fullmatch(r"messages:1 user Mend the build. Touch no test. \(\d+ tokens\)", lines[0])
    assert re.fullmatch(r"messages:6 assistant look src/3.py \(\d+ tokens\)", lines[5])
    assert re.fullmatch(r"messages:7 tool look src/3.py \(1\d\d tokens\)", lines[6])
    assert "needle 3" in await talk.read_artifact("messages:7")


async def test_a_range_that_fits_is_given_whole(working: Runtime, client: Client, name: str) -> None:
    talk = await told(working, client, name, run(20))
    assert await talk.read_artifact("messages:1-2") == (
        '--- message 1 (user) ---\nMend the build.\nTouch no test.\n--- message 2 (assistant) ---\n{"path": "src/1.py"}'
    )
    assert await talk.read_artifact("#1-#2") == await talk.read_artifact("messages:1-2")
    assert await talk.read_artifact("messages:#1-2") == await talk.read_artifact("messages:1-2")
    assert (await talk.read_artifact("messages:1-41", lines="2")) == "Mend the build."


async def test_what_was_spilled_stays_a_key_among_what_fits(working: Runtime, client: Client, name: str) -> None:
    talk = await told(
        working, client, name, [user("why?"), looks("a", "build.log"), result("a", LOG), assistant("That is why.")]
    )
    read = await talk.read_artifact("messages:1-4")
    assert "--- message 1 (user) ---\nwhy?" in read
    assert read.endswith("--- message 4 (assistant) ---\nThat is why.")
    (line,) = (line for line in read.split("\n") if line.startswith("messages:3 "))
    assert re.fullmatch(rf"messages:3 tool look build.log \([\d,]+ tokens, key {KEY}\)", line)
    assert await talk.read_artifact(KEY, lines="77") == "line 77 of the build"


@pytest.mark.parametrize("words", [1, CLAIM_BYTES_MIN // 400 + 1], ids=["small", "uploaded"])
async def test_an_outline_is_bounded_and_reads_on_to_the_end(
    working: Runtime, client: Client, name: str, words: int
) -> None:
    text = "🙂言葉" * 40 * words  # 400 bytes each
    said = [user(f"{number} {text}") for number in range(1, 301)]
    talk = await told(working, client, name, said)
    key, numbers = "messages:1-", []
    for _ in range(20):
        read = await talk.read_artifact(key)
        assert len(read.encode()) <= ANSWER_BYTES
        numbers += [int(found) for found in re.findall(r"^messages:(\d+) user", read, re.MULTILINE)]
        if "go on with" not in read:
            break
        key = followed(read.split("\n")[-1])
    assert numbers == list(range(1, 301))


async def test_hits_of_a_pattern_carry_number_and_key(working: Runtime, client: Client, name: str) -> None:
    said = [*run(20), looks("big", "build.log"), result("big", LOG)]
    talk = await told(working, client, name, said)
    read = (await talk.read_artifact("messages:2-43", pattern=r"^needle 1[12]$|^line 777 ", context=0)).split("\n")
    heads = [line for line in read if line.startswith("messages:")]
    assert [head.split(" (")[0] for head in heads] == [
        "messages:23 tool look src/11.py",
        "messages:25 tool look src/12.py",
        "messages:43 tool look build.log",
    ]
    assert heads[2].endswith(f"key {KEY})")
    assert read[-1] == "778:line 777 of the build"
    assert (await talk.read_artifact("messages:43", lines="778")) == "line 777 of the build"
    assert await talk.read_artifact("messages:2-43", pattern="nowhere at all") == "[no line matches]"


async def test_many_hits_are_bounded_and_say_how_to_go_on(working: Runtime, client: Client, name: str) -> None:
    said = [*run(40), looks("big", "build.log"), result("big", LOG)]
    talk = await told(working, client, name, said)
    key, numbers = "messages:1-", []
    while key != "messages:83":
        read = await talk.read_artifact(key, pattern="so it is|of the build", context=0)
        assert len(read.encode()) <= ANSWER_BYTES
        numbers += [int(found) for found in re.findall(r"^messages:(\d+) ", read, re.MULTILINE)]
        key = followed(read.split("\n")[-1])
    assert numbers == list(range(3, 82, 2))
    # of one message at most half an answer, and then its own key
    *_, last = (await talk.read_artifact("messages:82-83", pattern="of the build", context=0)).split("\n")
    assert re.search(r'more lines match; narrow the pattern, or read "messages:83" with lines="\d+-"\]$', last)


async def test_what_has_no_call_and_what_is_beyond_the_end(working: Runtime, client: Client, name: str) -> None:
    said = [*run(12), result("nobody", "an answer " * 2000)]
    talk = await told(working, client, name, said)
    *_, last = (await talk.read_artifact("messages:20-900")).split("\n")
    assert re.fullmatch(r"messages:26 tool an answer an answer.* \([\d,]+ tokens(, key \w{16})?\)", last)
    for beyond in ("messages:27-30", "messages:900-", "#99"):
        with pytest.raises(NotFound, match=r"there are no messages .* the last one is 26"):
            await talk.read_artifact(beyond)


async def test_a_step_of_the_account_is_expanded_by_its_number(working: Runtime, client: Client, name: str) -> None:
    said = [*run(4, words=10), *chatter(24)]
    talk = await client.open(name, policy=layer(window=4000))
    await talk.append(said[:1])
    for start in range(1, len(said), 2):
        await talk.append(said[start : start + 2])
        await talk.context()
    state = await settled(working, talk.at)
    assert {4, 5}.isdisjoint(entry.number for entry in state.live)
    assert (await talk.expand(messages="#4")).restored == (4, 5)
