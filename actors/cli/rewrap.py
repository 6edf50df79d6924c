"""What `rewrap` does."""

from __future__ import annotations

from actors.host.bootstrap import Runtime
from protocol.errors import Rejected
from protocol.ids import Token, written_address
from protocol.keys import SET_KEYS
from storage.rewrapping import rewrapped

from .options import StackOptions
from .session import connected, printed, said


def rewrap(stack: StackOptions, tenant: str, *, as_json: bool) -> int:
    """Wrap keys anew; see `jettison rewrap --help`."""

    async def main(running: Runtime) -> int:
        if running.tenants is None:
            raise Rejected(f"no tenants' keys are configured; {SET_KEYS}")
        owner = Token(written_address(f"{tenant}/x").tenant)
        count = await rewrapped(running.connection, tenants=running.tenants, tenant=owner)
        if as_json:
            printed({"tenant": owner, "keys": count})
        elif count:
            said(f"{owner}: {count} keys are wrapped by the newest line of its key file; older lines may be removed")
        else:
            # a mistyped tenant must not lead anybody to throw away the key of another one
            said(f"{owner}: there is no key of this tenant; nothing was wrapped anew, and nothing may be thrown away")
        return 0

    return connected(main, stack)
