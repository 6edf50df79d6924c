"""Server: the tools and the resources, as the official SDK serves them.

A call is answered for the claims of its request alone; between two calls nothing is remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeAlias
from urllib.parse import unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from protocol.errors import JettisonError, Rejected
from protocol.tools import READ_TOOL

from .answers import KEPT_MAX, Answers, ToolAnswer
from .claims import Claims
from .tools import INSTRUCTIONS, OFFERS

log = logging.getLogger("jettison.mcp")

NAME = "jettison"
SCHEME = "jettison://"
URI_CHARS_MAX = 1_000

AT_HAND = (READ_TOOL, "search_history")
_AT_HAND = {"anthropic/alwaysLoad": True}
"""Claude Code has its model look for other tools before it can call them: pointers name these two, or nearly."""

Context: TypeAlias = ServerRequestContext[Any, Any]
ClaimsOf: TypeAlias = Callable[[Context], Claims]


def served(answers: Answers, claims_of: ClaimsOf) -> Server[Any]:
    """Return the server that answers with *answers*, for the claims of each request."""

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_tools(read_only=answers.read_only))

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return _result(await answers.told(params.name, dict(params.arguments or {}), claims_of(context)))

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        before = _cursor(params.cursor if params else None)
        try:
            kept = await answers.kept(claims_of(context), before=before)
        except JettisonError as error:
            raise _failed(error) from None
        following = str(kept[-1][1].number) if len(kept) >= KEPT_MAX else None
        resources = [
            types.Resource(
                uri=f"{SCHEME}{at.conversation}/{part.key}",
                name=f"{at.conversation}/{part.key}",
                title=f"{part.kind} of message {part.number}",
                description=f"{part.tokens:,} tokens that left the view of {at.conversation}",
                size=part.bytes,
            )
            for at, part in kept
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=following)

    async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            told = await answers.whole(_key_in(uri), claims_of(context))
        except JettisonError as error:
            raise _failed(error) from None
        return types.ReadResourceResult(contents=[_contents(uri, told)])

    return Server(
        NAME,
        version=version("jettison"),
        title="Jettison",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _tools(*, read_only: bool) -> list[types.Tool]:
    return [
        types.Tool(
            name=one.name,
            title=one.title,
            description=one.about,
            input_schema=one.schema,
            _meta=_AT_HAND if one.name in AT_HAND else None,
            annotations=types.ToolAnnotations(
                title=one.title,
                read_only_hint=not one.changes,
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )
        for one in OFFERS
        if not (one.changes and read_only)
    ]


def _result(told: ToolAnswer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=told.text)]
    if told.image:
        content.append(types.ImageContent(data=told.image, mime_type=told.media_type))
    return types.CallToolResult(content=content, is_error=told.failed)


_TEMPLATE = types.ResourceTemplate(
    uri_template=f"{SCHEME}{{conversation}}/{{key}}",
    name="artifact",
    title="What left a conversation",
    description='An artifact by its key, or messages as "messages:4-9"; pointers name both. At most 64 KiB of it.',
)


def _contents(uri: str, told: ToolAnswer) -> types.TextResourceContents | types.BlobResourceContents:
    if told.image:
        return types.BlobResourceContents(uri=uri, mime_type=told.media_type, blob=told.image)
    return types.TextResourceContents(uri=uri, mime_type="text/plain", text=told.text)


def _key_in(uri: str) -> str:
    """Return the key in *uri*; one without a conversation is the only one's. Raises `Rejected`."""
    if not uri.startswith(SCHEME) or len(uri) > URI_CHARS_MAX:
        raise Rejected(f"a resource is named {SCHEME}CONVERSATION/KEY")
    return unquote(uri.removeprefix(SCHEME))


def _cursor(given: str | None) -> int:
    if given is None:
        return 0
    if not (given.isascii() and given.isdecimal() and len(given) <= 9):
        raise MCPError(code=types.INVALID_PARAMS, message="this is no cursor that was given here")
    return int(given)


def _failed(error: JettisonError) -> MCPError:
    if isinstance(error, Rejected):
        return MCPError(code=types.INVALID_PARAMS, message=str(error))
    log.warning("a resource cannot be read: %s", error)
    return MCPError(code=types.INTERNAL_ERROR, message=f"this cannot be read now ({type(error).__name__})")
