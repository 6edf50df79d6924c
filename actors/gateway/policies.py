"""Policies: what the conversations of a gateway are opened with, the same in every process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from cachetools import LRUCache

from actors.spill.policy_layers import Layers
from protocol.errors import BadPolicy
from protocol.ids import token
from protocol.policy import Policy
from protocol.tools import READ_TOOL

from .bodies import Body
from .identity import Head

KNOWN_MAX = 4096

Retrieval = Literal["inject", "mcp", "off"]
"""How models follow pointers: by a tool of ours, by one that their agent brings, or not at all."""

NO_POINTERS: dict[str, Any] = {
    "spill": {"share": 1.0, "tokens": 2**40, "bytes": 2**40, "batch": 1.0, "medium": 1.0, "repeated": "keep"}
}
"""For a model that has no tool to follow a pointer: results stay whole, as long as they fit."""


@dataclass(kw_only=True)
class Policies:
    """What an operator set for all of them."""

    layers: Layers
    window: int = 0
    retrieval: Retrieval = "inject"
    mcp_tool: str = READ_TOOL
    """What the agents' own tool is called, with `mcp`."""
    _known: LRUCache[tuple[object, ...], tuple[Policy, dict[str, Any]]] = field(
        default_factory=lambda: LRUCache(KNOWN_MAX)
    )

    @property
    def injects(self) -> bool:
        """Tell whether models are given a tool of ours."""
        return self.retrieval == "inject"

    def of(self, tenant: str, head: Head, body: Body) -> tuple[Policy, dict[str, Any]]:
        """Return a conversation's policy, and its own layer. Raises `BadPolicy`."""
        asked = (tenant, body.model, body.api.profile, head.outside, head.tools)
        found = self._known.get(asked)
        if found is None:
            found = self._known[asked] = self._resolved(tenant, head, body)
        return found

    def window_of(self, tenant: str, model: str) -> int:
        """Return the tokens of the largest window that anything names; 0 where none does."""
        return max(self.window, self.layers.window(token(tenant), model=model))

    def _resolved(self, tenant: str, head: Head, body: Body) -> tuple[Policy, dict[str, Any]]:
        budget = {"tools": head.outside, **({"window": self.window} if self.window else {})}
        layer: dict[str, Any] = {"shape": {"profile": body.api.profile}, "budget": budget}
        if not head.tools or self.retrieval == "off":
            layer["shape"]["read_tool"] = ""
            layer |= NO_POINTERS
        elif self.retrieval == "mcp":
            # one server reads for all conversations of its caller
            layer["shape"] |= {"read_keys": "named"}
            if self.mcp_tool != READ_TOOL:
                layer["shape"]["read_tool"] = self.mcp_tool
        try:
            return self.layers.resolved(token(tenant), model=body.model, layer=layer).policy, layer
        except BadPolicy:
            # keys that the operator locked: the format alone has to be right
            layer = {"shape": layer["shape"]}
            return self.layers.resolved(token(tenant), model=body.model, layer=layer).policy, layer
