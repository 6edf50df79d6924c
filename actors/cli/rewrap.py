"""What `rewrap` does."""

from __future__ import annotations

from actors.bootstrap import Runtime
from protocol.errors import Rejected
from protocol.ids import Token, written_address
from protocol.keys import SET_KEYS
from storage.rewrapping import rewrapped

from .audit_read import Options
from .session import printed, said
from .verify import connected


def rewrap(tenant: str, *, options: Options) -> int:
    """Wrap keys anew; see `jettison rewrap --help`."""

    async def main(running: Runtime) -> int:
        if running.tenants is None:
            raise Rejected(f"no tenants' keys are configured; {SET_KEYS}")
        owner = Token(written_address(f"{tenant}/x").tenant)
        count = await rewrapped(running.connection, tenants=running.tenants, tenant=owner)
        if options.as_json:
            printed({"tenant": owner, "keys": count})
        else:
            said(f"{owner}: {count} keys wrapped anew; what wrapped them before may be thrown away")
        return 0

    return connected(main, config=options.config, nats=options.nats, data=options.data)
