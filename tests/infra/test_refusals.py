"""Refusals: what a server does not let somebody do is told in words, at once, in the client and in every program."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import nats.errors
import pytest

from actors.cli import NOT_PERMITTED, UNREACHABLE
from actors.host.settings import Settings
from protocol import connection as connections
from protocol.client import Client
from protocol.connecting import connect
from protocol.errors import JettisonError, LogUnavailable, NotPermitted
from protocol.guarded import Guarded
from protocol.ids import address
from protocol.login import Login
from storage.jetstream_reads import read_batch
from tests.infra.rights_server import PASSWORD, RightsServer, provision_as_operator, rights_server
from tests.infra.test_logins import serving
from tests.infra.test_logins import tls as tls_block
from tests.promises.harness import environment
from tests.stack import LOOPBACK, jettison_command

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 3600.0
"""Longer than a test may take: who waits for as long as that fails it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsServer]:
    with rights_server(tmp_path_factory.mktemp("refusals")) as running:
        yield running


@pytest.fixture(scope="module")
async def provisioned(server: RightsServer) -> RightsServer:
    await provision_as_operator(server)
    return server


def test_an_answer_whose_way_ended_with_its_server_is_no_lack_of_rights() -> None:
    connection = Guarded(Login(user="cut"), encrypts=False)

    def told(subject: str) -> str:
        return connection.heed(nats.errors.Error(f'nats: permissions violation for publish to "{subject}"'))

    assert told("_r_.v8z7v6.9libkg") == ""
    assert told("ctx.v1.log.acme.c.said") == (
        "Permissions Violation: user cut may not publish to ctx.v1.log.acme.c.said"
    )


@contextmanager
def wrong_password(folder: Path) -> Iterator[tuple[str, str, str]]:
    with rights_server(folder / "rights") as running:
        yield running.url, "operator", "wrong"


@contextmanager
def bad_certificate(folder: Path) -> Iterator[tuple[str, str, str]]:
    _, block = tls_block(folder)
    with serving(folder, block) as port:
        yield f"tls://{LOOPBACK}:{port}", "operator", PASSWORD


@contextmanager
def wrong_account(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The one who may do all in an account that is not the log's."""
    with rights_server(folder / "rights") as running:
        yield running.url, "thief-acme", PASSWORD


@contextmanager
def no_jetstream(folder: Path) -> Iterator[tuple[str, str, str]]:
    users = f'authorization {{ users: [{{ user: operator, password: "{PASSWORD}" }}] }}'
    with serving(folder, users, jetstream=False) as port:
        yield f"nats://{LOOPBACK}:{port}", "operator", PASSWORD


FAULTS: dict[Callable[..., object], str] = {
    wrong_password: "Authorization Violation for user operator",
    bad_certificate: "its certificate is not trusted",
    wrong_account: "JetStream not enabled for account",
    no_jetstream: "JetStream is off on this server",
}


def as_user(settings: Settings, url: str, user: str, password: str) -> Settings:
    named = msgspec.structs.replace(settings.nats, url=url, user=user, password=password)
    return msgspec.structs.replace(settings, nats=named)


def told_by(command: str, settings: Settings, *, wanted: str) -> tuple[str, int]:
    """Return what a program of ours says, and its exit code.

    A worker waits for better times, and is ended when it has said *wanted*.
    """
    more = {"JETTISON_NATS__USER": settings.nats.user, "JETTISON_NATS__PASSWORD": settings.nats.password}
    argv = [*jettison_command(), *command.split()]
    out, err = subprocess.PIPE, subprocess.STDOUT
    told = ""
    with subprocess.Popen(
        argv, cwd=ROOT, env={**environment(settings), **more}, stdout=out, stderr=err, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told += line
            if wanted in told and "worker" in command:
                process.terminate()
    return told, process.returncode


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_each_program_names_what_failed(fault: Callable[..., object], tmp_path: Path, settings: Settings) -> None:
    with fault(tmp_path) as (url, user, password):  # type: ignore[attr-defined]
        wrong = as_user(settings, url, user, password)
        for command in ("worker digest", "provision", "doctor", "ls"):
            told, code = await asyncio.to_thread(told_by, command, wrong, wanted=FAULTS[fault])
            assert FAULTS[fault] in told, command
            assert command not in ("provision", "ls") or code == NOT_PERMITTED, command
            assert command != "doctor" or "ok   s3: " in told, "the store is looked at all the same"
            assert "TimeoutError" not in told
            assert PASSWORD not in told
            assert "Traceback" not in told
        with pytest.raises(NotPermitted, match=FAULTS[fault]):
            async with Client.connect(url, user=user, password=password) as client:
                await client.open("c", tenant="acme2")


async def test_the_doctor_of_who_may_not_ask_says_as_whom_to_ask(provisioned: RightsServer, settings: Settings) -> None:
    asked = as_user(settings, provisioned.url, "auditor", PASSWORD)
    told, code = await asyncio.to_thread(told_by, "doctor", asked, wanted="")
    assert "BAD  jetstream: Permissions Violation: user auditor" in told
    assert "fix: run doctor as operator" in told
    assert "jetstream {}" not in told, "JetStream is there"
    assert code == UNREACHABLE


async def test_a_violation_names_who_may_not_do_what(
    provisioned: RightsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TRY_SECONDS", PATIENCE_SECONDS)
    async with Client.connect(provisioned.url, user="agent-acme", password=PASSWORD) as client:
        client.patience_seconds = PATIENCE_SECONDS
        said = r"Permissions Violation: user agent-acme may not publish to ctx\.v1\.log\.default\.ours\.said"
        with pytest.raises(NotPermitted, match=said):
            await client.open("Ours")
        ours = await client.open("Ours", tenant="acme")
        theirs = type(ours)(client=client, at=address("ours"))
        with pytest.raises(NotPermitted, match=said):
            await theirs.append([{"role": "user", "content": "x"}])
        with pytest.raises(NotPermitted, match=r"may not publish to ctx\.v1\.ask\.context\.default\.ours"):
            await theirs.context()
        assert await ours.append([{"role": "user", "content": "x"}]) > 0


async def test_who_asks_for_many_messages_and_may_not_is_told_at_once(provisioned: RightsServer) -> None:
    connection = await connect(provisioned.url, name="test", login=provisioned.login("agent-acme"))
    try:
        for _ in range(2):
            with pytest.raises(NotPermitted, match=r"may not publish to \$js\.api\.direct\.get\.ctx_log"):
                await read_batch(connection, address("ours"), first=1, last=2)
    finally:
        await connection.close()


async def test_a_user_who_is_shut_out_later_is_told_so(tmp_path: Path, settings: Settings) -> None:
    with rights_server(tmp_path) as server:
        await provision_as_operator(server)
        async with Client.connect(server.url, user="agent-acme", password=PASSWORD) as client:
            talk = await client.open("c", tenant="acme")
            acme = tmp_path / "acme.conf"
            acme.write_text(acme.read_text().replace("user: agent-acme", "user: agent-nobody"))
            server.process.send_signal(signal.SIGHUP)
            said = [{"role": "user", "content": "x"}]

            async def until_refused() -> None:
                async with asyncio.timeout(180):
                    while await talk.append(said):
                        await asyncio.sleep(0.05)

            with pytest.raises(LogUnavailable, match="Authorization Violation for user agent-acme"):
                await until_refused()
            client.patience_seconds = PATIENCE_SECONDS
            with pytest.raises(LogUnavailable, match="Authorization Violation for user agent-acme; nothing was sent"):
                await talk.append(said)


async def test_a_server_that_hangs_is_told_from_a_worker_that_is_not_there(tmp_path: Path, settings: Settings) -> None:
    with rights_server(tmp_path) as server:
        await provision_as_operator(server)
        async with Client.connect(server.url, user="agent-acme", password=PASSWORD) as client:
            talk = await client.open("c", tenant="acme")
            with pytest.raises(JettisonError, match="nobody serves contexts"):
                await talk.context(patience=0.5)
            server.process.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(JettisonError, match="NATS does not answer"):
                    await talk.context(patience=0.5)
            finally:
                server.process.send_signal(signal.SIGCONT)
            # and is heard at once when it goes on, although nobody waits for its late answers any more
            with pytest.raises(JettisonError, match="nobody serves contexts"):
                await talk.context(patience=0.5)
            # gone altogether: who reconnects is not answered either
            server.process.kill()
            server.process.wait(timeout=180)
            with pytest.raises(JettisonError, match="NATS does not answer"):
                await talk.context(patience=0.5)
