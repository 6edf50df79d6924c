"""A server with the rights of `infra/nats`: two tenants, an agent of one conversation, a thief, and all who work."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import nkeys

from actors.host.settings import Settings
from protocol.login import Login
from tests.stack import LOOPBACK, free_port, listened_on

CONFIGURATIONS = Path(__file__).parents[2] / "infra" / "nats"
WORKERS = ("spill", "digest", "squeeze", "cut")
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


def nkey(folder: Path, name: str = "agent") -> tuple[Path, str]:
    """Make an NKey; return the file of its seed, and its public half."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    file = folder / f"{name}.nk"
    file.write_bytes(seed + b"\n")
    return file, nkeys.from_seed(bytearray(seed)).public_key.decode()


@contextmanager
def rights_server(folder: Path, *, port: int = 0, block: str = "") -> Iterator[RightsServer]:
    """Run a server with `rights.conf`, the tenant `acme` made as it is told there, and a thief in its account."""
    shutil.copytree(CONFIGURATIONS, folder, dirs_exist_ok=True)
    acme = (folder / "tenant.conf").read_text().replace("default", "acme")
    # whatever the permissions of acme's agent are, this one has none
    thief = f'  users: [\n    {{ user: thief, password: "{PASSWORD}" }}\n'
    (folder / "acme.conf").write_text(acme.replace("  users: [\n", thief))
    rights = folder / "rights.conf"
    included = '  include "tenant.conf"\n'
    assert included in rights.read_text()
    more = f'{included}  include "acme.conf"\n  include "conversation.conf"\n'
    rights.write_text(rights.read_text().replace(included, more))
    seed_file, public = nkey(folder)
    port = port or free_port()
    config = folder / "server.conf"
    config.write_text(
        f'listen: "{LOOPBACK}:{port}"\nmax_payload: 1MB\n{block}\n'
        f'jetstream {{ store_dir: "{folder}/store" }}\ninclude "rights.conf"\n'
    )
    named = (*WORKERS, "operator", "auditor")
    passwords = {f"{user.upper()}_PASSWORD": PASSWORD for user in named}
    passwords |= {f"AGENT_PASSWORD_{tenant}": PASSWORD for tenant in ("default", "acme")}
    binary = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    assert binary is not None
    with (folder / "server.log").open("ab") as out:
        process = subprocess.Popen(
            [binary, "-c", str(config)], env={**os.environ, **passwords, "NKEY_OF_AGENT": public}, stderr=out
        )
    try:
        listened_on(port)
        yield RightsServer(url=f"nats://{LOOPBACK}:{port}", seed_file=seed_file, process=process)
    finally:
        process.kill()
        process.wait(timeout=30)


async def soon(seconds: float = 0.3) -> None:
    """Wait until what was published has had its effect."""
    await asyncio.sleep(seconds)
