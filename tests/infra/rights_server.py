"""A server with the rights of `infra/nats`: two tenants, an agent of one conversation, a thief, and all who work."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import nkeys

from actors.host.settings import Settings
from protocol.connecting import connect
from protocol.login import Login
from protocol.subjects import ACTORS
from storage.streams import provision
from tests.promises.harness import Rights
from tests.stack import LOOPBACK, free_port, listened_on, nats_server

CONFIGURATIONS = Path(__file__).parents[2] / "infra" / "nats"
WORKERS: tuple[str, ...] = ACTORS
PASSWORD = "pass-of-all"
TICKET = "ticket-1"
"""The conversation of tenant `default` that has an agent of its own."""


@dataclass(frozen=True, kw_only=True)
class RightsServer:
    """Where it is, and as whom one comes to it."""

    url: str
    seed_file: Path
    process: subprocess.Popen[bytes]

    def login(self, user: str) -> Login:
        """Return the login of *user*; that of one conversation has an NKey."""
        if user == TICKET:
            return Login(nkey_file=str(self.seed_file))
        return Login(user=user, password=PASSWORD)

    def settings(self, settings: Settings, user: str) -> Settings:
        """Return *settings* as *user* of this server."""
        named = msgspec.structs.replace(settings.nats, url=self.url, **vars(self.login(user)))
        return msgspec.structs.replace(settings, nats=named)


async def provision_as_operator(server: RightsServer) -> None:
    """Make the streams of *server*."""
    connection = await connect(server.url, name="operator", login=server.login("operator"))
    await provision(connection)
    await connection.close()


def nkey(folder: Path, name: str = "agent") -> tuple[Path, str]:
    """Make an NKey; return the file of its seed, and its public half."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    file = folder / f"{name}.nk"
    file.write_bytes(seed + b"\n")
    return file, nkeys.from_seed(bytearray(seed)).public_key.decode()


def rights_files(folder: Path, tenants: Iterable[str]) -> dict[str, str]:
    """Put `rights.conf` into *folder* with *tenants*, made as it is told there; return its server's environment.

    In each tenant's account is also a thief, `thief-TENANT`: whatever the permissions of agents are, it has none.
    """
    shutil.copytree(CONFIGURATIONS, folder, dirs_exist_ok=True)
    included = '  include "tenant.conf"\n'
    more, named = included, [user.upper() for user in (*WORKERS, "operator", "auditor")]
    passwords = {f"{name}_PASSWORD": PASSWORD for name in named} | {"AGENT_PASSWORD_default": PASSWORD}
    for tenant in tenants:
        made = (folder / "tenant.conf").read_text().replace("default", tenant)
        thief = f'  users: [\n    {{ user: thief-{tenant}, password: "{PASSWORD}" }}\n'
        (folder / f"{tenant}.conf").write_text(made.replace("  users: [\n", thief))
        more += f'  include "{tenant}.conf"\n'
        passwords[f"AGENT_PASSWORD_{tenant}"] = PASSWORD
    rights = folder / "rights.conf"
    assert included in rights.read_text()
    rights.write_text(rights.read_text().replace(included, more))
    return passwords


def rights_of(folder: Path, tenants: Iterable[str]) -> Rights:
    """Return the rights of `infra/nats` with *tenants*, for servers whose configuration lies in *folder*."""
    environment = rights_files(folder, tenants)
    operator = Login(user="operator", password=PASSWORD)
    return Rights(include='include "rights.conf"', environment=environment, operator=operator)


def partitioned(rights: Rights, folder: Path, partitions: int) -> Rights:
    """Return the same *rights* in *folder* for so many *partitions*, made as it is told in `partitions.awk`."""
    command = ["awk", "-v", f"n={partitions}", "-f", "partitions.awk", "rights.conf"]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (folder / "partitioned.conf").write_text(made.stdout)
    return dataclasses.replace(rights, include='include "partitioned.conf"')


@contextmanager
def rights_server(folder: Path, *, port: int = 0, block: str = "") -> Iterator[RightsServer]:
    """Run a server with `rights.conf`, the tenant `acme`, an agent of one conversation of `default`, and a gateway."""
    passwords = rights_files(folder, ["acme"]) | {"GATEWAY_PASSWORD": PASSWORD, "MCP_PASSWORD": PASSWORD}
    rights = folder / "rights.conf"
    included = '  include "tenant.conf"\n'
    more = f'{included}  include "conversation.conf"\n  include "gateway.conf"\n  include "mcp.conf"\n'
    rights.write_text(rights.read_text().replace(included, more))
    seed_file, public = nkey(folder)
    port = port or free_port()
    config = folder / "server.conf"
    config.write_text(
        f'listen: "{LOOPBACK}:{port}"\nmax_payload: 1MB\n{block}\n'
        f'jetstream {{ store_dir: "{folder}/store" }}\ninclude "rights.conf"\n'
    )
    known = passwords | {"NKEY_OF_AGENT": public}
    with nats_server("-c", str(config), log=folder / "server.log", environment=known) as process:
        listened_on(port)
        yield RightsServer(url=f"nats://{LOOPBACK}:{port}", seed_file=seed_file, process=process)


async def soon(seconds: float = 0.3) -> None:
    """Wait until what was published has had its effect, if it has any."""
    await asyncio.sleep(seconds)  # nothing
