"""Media: a view's images, which lie in the store and are put back where they stood."""

from __future__ import annotations

import logging

from actors.core.entry import ARTIFACT, media
from actors.core.state import State
from protocol.errors import ArtifactDamaged, ArtifactsUnavailable, NotFound
from protocol.formats.uploads import filled
from protocol.ids import Address
from storage.ports import Artifacts

log = logging.getLogger("jettison.context")


async def with_media(artifacts: Artifacts, at: Address, state: State, body: bytes) -> bytes:
    """Return a view's bytes with its uploaded images in them; one that is gone stays a name."""
    for sha256 in {part.sha256 for entry in state.entries for part in media(entry)}:
        name = ARTIFACT + sha256
        if name.encode() not in body:
            continue
        try:
            text = await artifacts.get(at.tenant, sha256)
        except (NotFound, ArtifactDamaged, ArtifactsUnavailable) as error:
            log.warning("an image of %s cannot be shown: %s", at, error)
            continue
        body = filled(body, name, text.decode("utf-8", "replace"))
    return body
