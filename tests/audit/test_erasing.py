"""What is erased is on no disk any more, and nothing brings it back; the chain still proves that it was."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.audit.anchors import AnchorMark
from actors.audit.erasing import tombstone
from actors.audit.folded_log import Folded
from actors.audit.heads import Head, moved, start
from actors.audit.replay import replay
from actors.audit.verify import Evidence, verify
from actors.cli.session import located
from actors.cli.verify import verdict_text
from actors.core.flow import next_actor
from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from actors.runtime.fold import decisions, folded
from protocol import codec, subjects
from protocol.client import Client, Conversation
from protocol.errors import ArtifactsUnavailable, Erased
from protocol.facts import ConversationErased
from protocol.ids import Address, fresh_id
from storage.ports import Record
from tests.audit.recorded import recorded
from tests.audit.test_undo_commands import refused, told
from tests.builders import AT, Talk, assistant, result, user
from tests.cli.test_cli import jettison
from tests.conftest import settled


def buried(talk: Talk) -> Record:
    """Return the tombstone of *talk* as it stands in the log."""
    commit = tombstone(talk.at, talk.records, by="test", at_ms=7)
    return Record(seq=talk.records[-1].seq + 1, side="done", body=codec.encode_commit(commit))


def last_head(talk: Talk) -> Head:
    head = start(talk.at)
    for record in talk.records:
        head = moved(head, record)
    return head


def test_a_tombstone_follows_the_log_and_stands_without_it() -> None:
    talk = recorded()
    stone = buried(talk)
    for records in ([*talk.records, stone], [stone]):
        state = folded(AT, records)
        assert (state.erased, state.version, state.live, state.messages) == (True, talk.state.version + 1, (), 0)
        assert next_actor(state) is None
        assert replay(AT, records).divergence is None
    judged = verify(Evidence(at=AT, records=[stone]))
    assert judged.ok
    told = verdict_text(judged)
    assert told.startswith(f"{AT}: erased; what is left, its tombstone, is fine: version {talk.state.version + 1} (")
    assert told.endswith("), 0 anchors; not anchored yet\n"), "nothing of rules: no rule decided it"
    (fact,) = codec.decode_commit(stone.body).facts
    assert fact == ConversationErased(
        at_ms=7,
        by="test",
        head=talk.state.hash,
        said=len([one for one in talk.records if one.side == "said"]),
        commits=len(talk.commits),
        messages=talk.state.messages,
    )


def test_what_is_said_after_a_tombstone_is_not_heard() -> None:
    talk = Talk(recorded().state.policy)
    talk.play(user("a"))
    stone = buried(talk)
    zombie = Record(seq=stone.seq + 1, side="said", body=talk.say())
    state = folded(AT, [stone, zombie])
    assert (state.erased, state.messages, state.seq, next_actor(state)) == (True, 0, zombie.seq, None)
    assert [one.after.erased for one in decisions(AT, [stone, zombie])] == [True]
    (found,) = verify(Evidence(at=AT, records=[stone, zombie])).problems
    assert (found.what, found.first_seq, found.last_seq) == ("messages", zombie.seq, zombie.seq)
    assert found.reason == "behind its tombstone 1 envelope was said that nobody hears: erase again"


def test_who_remembers_what_was_erased_forgets_it_with_the_tombstone() -> None:
    talk = recorded()
    known = Folded(AT).extended(talk.records).extended([buried(talk)])
    assert (len(known), [one.after.erased for one in known.commits], known.damage) == (1, [True], None)


def test_an_anchored_head_moves_on_to_the_tombstone() -> None:
    talk = recorded()
    head = start(AT)
    for record in talk.records[:20]:
        head = moved(head, record)
    after = moved(head, buried(talk))
    assert (after.version, after.hash) == (talk.state.version + 1, codec.decode_commit(buried(talk).body).hash)


def test_a_forged_tombstone_amid_a_log_is_found() -> None:
    talk = recorded()
    forged = buried(talk)
    found = verify(Evidence(at=AT, records=[*talk.records[:20], forged]))
    assert found.first is not None
    assert (found.first.what, "erase again" in found.first.reason) == ("commit", True)


def test_a_log_that_is_damaged_can_be_buried() -> None:
    talk = recorded()
    broken = [Record(seq=1, side="done", body=b"garbage"), *talk.records[3:9], Record(seq=99, side="done", body=b"x")]
    commit = tombstone(AT, broken, by="test", at_ms=7)
    stone = Record(seq=100, side="done", body=codec.encode_commit(commit))
    assert folded(AT, [stone]).erased


def test_a_tombstone_that_does_not_follow_what_an_anchor_saw_is_found() -> None:
    talk = recorded()
    stone, mark = buried(talk), AnchorMark(anchor=1, head=last_head(talk))
    sound = verify(Evidence(at=AT, records=[stone], marks=[mark]))
    assert (sound.ok, sound.erased) == (True, True)
    other = AnchorMark(
        anchor=1,
        head=Head(**{**{name: getattr(mark.head, name) for name in mark.head.__struct_fields__}, "hash": b"?" * 32}),
    )
    found = verify(Evidence(at=AT, records=[stone], marks=[other]))
    assert found.first is not None
    assert found.first.what == "rewritten"


def hits(folder: Path, planted: str) -> dict[str, int]:
    """Return in which files below *folder* the text stands, in any of the forms that text takes on a disk."""
    forms = (planted.encode(), planted.encode("utf-16-le"), planted.encode().hex().encode())
    found: dict[str, int] = {}
    for file in folder.rglob("*"):
        if file.is_file():
            body = file.read_bytes()
            count = sum(body.count(form) for form in forms)
            if count:
                found[str(file.relative_to(folder))] = count
    return found


def holding(folder: Path, secret: bytes) -> list[str]:
    """Return the files below *folder* that hold *secret*."""
    return [file.name for file in folder.rglob("*") if file.is_file() and secret in file.read_bytes()]


def of_stack(data: Path) -> Settings:
    """Return the settings of the stack that runs on *data*."""
    return located(Settings(data=str(data)))


async def spoken(client: Client, planted: str) -> tuple[Conversation, Conversation]:
    """Say *planted* in every way into one conversation; another one shares a large result with it."""
    layer = {"budget": {"window": 12_000, "reserve": 0}}
    names = (f"{name}-{fresh_id()[:8]}" for name in ("victim", "bystander"))
    talk, bystander = [await client.open(name, policy=layer) for name in names]
    shared = f"shared {secrets.token_hex(40_000)}"
    for other in (talk, bystander):
        await other.append([user("look"), assistant(None, "s"), result("s", shared)])
    for turn in range(60):
        noise = f"{planted} {secrets.token_hex(300)}"
        large = f"{planted} {secrets.token_hex(20_000)}" if turn % 10 == 0 else noise
        await talk.append([user(f"{turn} {noise}"), assistant(None, f"c{turn}"), result(f"c{turn}", large)])
        await talk.context()
    await talk.append([user(f"{planted} {secrets.token_hex(200_000)}")])  # uploaded by claim check
    await talk.context()
    return talk, bystander


@pytest.mark.timeout(400)
@pytest.mark.parametrize("agent", ["encrypts", "speaks in plain text"])
async def test_after_an_erasure_no_file_holds_a_planted_text(data: Path, agent: str) -> None:
    planted, encrypts = f"PLANTED{secrets.token_hex(12)}", agent == "encrypts"
    settings = of_stack(data)
    async with (
        runtime(settings, role="test") as running,
        Client.connect(settings.nats.url, keys=running.tenants if encrypts else None) as client,
    ):
        talk, bystander = await spoken(client, planted)
        state = await settled(running, talk.at)
        assert state.version > 50, "there must be snapshots"
        untouched = await settled(running, bystander.at)
        before = hits(data, planted)
        assert bool(before) != encrypts
        assert all("CTX_LOG" in name for name in before), "what an agent says in plain text lies in the log alone"
        artifacts = {key async for key in _objects(running, talk.at)}

        assert told(data, "anchor")["refused"] == {}
        assert "say --yes" in jettison("erase", str(talk.at), "--data", str(data)).stderr
        done = jettison("erase", str(talk.at), "--yes", "--data", str(data))
        assert done.returncode == 0, done.stderr
        certificate: dict[str, Any] = json.loads(done.stdout)

        assert hits(data, planted) == {}
        assert (certificate["keys"], certificate["messages"], certificate["snapshots"] > 0) == (1, state.messages, True)
        assert len(certificate["shared"]) == 1
        assert artifacts >= set(certificate["artifacts"])
        assert not set(certificate["artifacts"]) & {key async for key in _objects(running, talk.at)}

        # who goes on as before changes nothing
        assert not await running.log.append(
            talk.at, b"late", expected_seq=state.position.done_seq, commit_id="z", headers={}
        )
        with pytest.raises(Erased, match="was erased"):
            await talk.append([user(f"{planted} once more")])
        assert hits(data, planted) == {}, "it did not land"
        if encrypts:
            async with Client.connect(settings.nats.url, keys=running.tenants) as fresh:
                with pytest.raises(Erased, match="key destroyed"):
                    await fresh.open(str(talk.at.conversation))
        with pytest.raises(Erased, match="was erased"):
            await talk.context(patience=2)
        with pytest.raises(Erased, match="was erased"):
            await talk.expand(messages="1-2")
        assert "ConversationErased" in jettison("log", str(talk.at), "--data", str(data)).stdout
        assert "was erased" in refused(data, "show", str(talk.at))
        assert "was erased" in refused(data, "rewind", str(talk.at), "--to", "1")
        assert "was erased" in refused(data, "fork", str(talk.at), "risen")
        verdict = told(data, "verify", str(talk.at))
        assert (verdict["ok"], verdict["erased"]) == (True, True)
        assert told(data, "anchor")["refused"] == {}
        again = jettison("erase", str(talk.at), "--yes", "--data", str(data))
        assert json.loads(again.stdout)["tombstone"] == certificate["tombstone"]
        assert hits(data, planted) == {}

        verdict = told(data, "verify", str(talk.at))
        assert (verdict["ok"], verdict["erased"], verdict["anchors"] > 0) == (True, True, True)

        # the other conversation is as it was
        assert await running.conversations.load(bystander.at) == untouched
        assert told(data, "verify", str(bystander.at))["ok"] is True


class Refusing:
    """An S3 store that is down when something is to be deleted."""

    async def delete(self, tenant: str, sha256: str) -> None:
        raise ArtifactsUnavailable("the store is down")


async def test_an_erasure_that_broke_off_still_knows_what_is_to_go(data: Path) -> None:
    settings = of_stack(data)
    async with (
        runtime(settings, role="test") as running,
        Client.connect(settings.nats.url, keys=running.tenants) as client,
    ):
        talk = await client.open(f"broken-{fresh_id()[:8]}", policy={"budget": {"window": 12_000, "reserve": 0}})
        await talk.append([user("look"), assistant(None, "c"), result("c", secrets.token_hex(40_000))])
        await talk.context()
        await settled(running, talk.at)
        wrapped = await running.connection.jetstream().get_msg(subjects.KEY_STREAM, subject=subjects.key(talk.at))
        assert len(holding(data, wrapped.data or b"")) == 1
        artifacts: Any = Refusing()
        whole = running.erasing()
        broken = msgspec.structs.replace(whole, artifacts=artifacts)
        with pytest.raises(ArtifactsUnavailable):
            await broken.erase(talk.at, by="test")
        certificate = await whole.erase(talk.at, by="test")
        assert (len(certificate.artifacts), certificate.keys) == (1, 1)
        assert holding(data, wrapped.data or b"") == []
        assert certificate.artifacts[0] not in {key async for key in _objects(running, talk.at)}


async def _objects(running: Any, at: Address) -> Any:
    listing = await running.bucket.call(
        "ListObjectsV2",
        f"{at.tenant}/",
        lambda client, bucket: client.list_objects_v2(Bucket=bucket, Prefix=f"{at.tenant}/"),
    )
    for entry in listing.get("Contents", ()):
        yield entry["Key"].rpartition("/")[2]
