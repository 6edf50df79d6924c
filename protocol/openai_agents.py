"""OpenAI Agents SDK: a session, whose configuration of a run shows each call of the model a view.

    session = JettisonSession("nats://127.0.0.1:4222", "ticket-4312", budget=32_000)
    agent = Agent(name="helper", model="gpt-5", tools=[*tools, session.read_tool()])
    await Runner.run(agent, "Why do the payouts fail?", session=session, run_config=session.run_config())

The session is the log: a run in another process goes on where it was left. A model that is an object and no name is
given as `session.model(OBJECT)`, or its usage is not reported and an overflow is not recovered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Unpack, cast

import msgspec
from agents import FunctionTool, Model, ModelProvider, MultiProvider, RunConfig
from agents.memory import SessionABC
from agents.run_config import CallModelData, ModelInputData
from agents.tool_context import ToolContext

from .adapters.adapter import READ_PARAMETERS, READ_TEXT, READ_TOOL, Adapter, Options, Shown
from .adapters.atoms import Atom
from .errors import UNREADABLE
from .formats.messages import RESPONSES

__all__ = ["JettisonSession"]

Item = Any
"""An input item of the SDK: a dict of the Responses format."""


@dataclass(frozen=True)
class _Call:
    """What the model is about to see."""

    shown: Shown
    atoms: list[Atom]


_call: ContextVar[_Call | None] = ContextVar("jettison_call", default=None)


class JettisonSession(SessionABC):
    """The history of *session_id*, kept whole; what is read of it is a view that fits."""

    def __init__(self, url: str, session_id: str, **options: Unpack[Options]) -> None:
        self.session_id = session_id
        self.adapter = Adapter(url, framework="openai-agents", profile=RESPONSES, **options)
        self._items: list[Item] = []

    def close(self) -> None:
        """Close the connection; without it, it ends with the process."""
        self.adapter.close()

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the view of what was said; *limit* is left aside, since a view is bounded."""
        self._items = _items(await self.adapter.arun(self.adapter.history(self.session_id)))
        return list(self._items)

    async def add_items(self, items: list[Item]) -> None:
        """Append what is new of *items*: what a model was shown is there already."""
        self._items = [*self._items, *items]
        await self.adapter.arun(self.adapter.keep(self.session_id, _atoms(self._items)))

    async def pop_item(self) -> Item | None:
        """Return the newest item and leave it out from now on: the log keeps it, what follows is a branch."""
        return self._items.pop() if self._items else None

    async def clear_session(self) -> None:
        """Begin anew in this process: the log keeps what was said."""
        self._items = []

    def run_config(self, **config: Any) -> RunConfig:
        """Return the configuration of a run: *config* and the view before each call, usage, and overflows."""
        inner = config.pop("model_provider", None) or MultiProvider()
        return RunConfig(**config, model_provider=_Provider(inner, self), call_model_input_filter=self._filtered)

    def model(self, inner: Model) -> Model:
        """Return *inner* such that its usage is reported and its overflows are recovered."""
        return _Model(inner, self)

    def read_tool(self) -> FunctionTool:
        """Return `read_artifact`, for the tools of an agent."""

        async def read(context: ToolContext[Any], text: str) -> str:
            try:
                arguments = msgspec.json.decode(text, type=dict[str, Any])
            except UNREADABLE as error:
                return f"Error: {error}"
            return await self.adapter.arun(self.adapter.read(self.session_id, arguments, call=context.tool_call_id))

        return FunctionTool(
            name=READ_TOOL,
            description=READ_TEXT,
            params_json_schema=READ_PARAMETERS,
            on_invoke_tool=read,
            strict_json_schema=False,
        )

    async def _filtered(self, data: CallModelData[Any]) -> ModelInputData:
        """Put the view in the place of the input of one call."""
        given = data.model_data
        atoms = _atoms(given.input)
        shown = await self.adapter.arun(self.adapter.view(self.session_id, atoms))
        _call.set(_Call(shown, atoms))
        return ModelInputData(input=_items(shown), instructions=given.instructions)


class _Provider(ModelProvider):
    """The models of another provider, each watched."""

    def __init__(self, inner: ModelProvider, session: JettisonSession) -> None:
        self._inner, self._session = inner, session

    def get_model(self, model_name: str | None) -> Model:
        return _Model(self._inner.get_model(model_name), self._session)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Model(Model):
    """A model whose usage is reported, and which is asked once more with a shorter view after an overflow."""

    def __init__(self, inner: Model, session: JettisonSession) -> None:
        self._inner, self._adapter, self._name = inner, session.adapter, session.session_id

    async def get_response(self, system_instructions: str | None, input: Any, *given: Any, **named: Any) -> Any:
        call = _call.get()
        try:
            response = await self._inner.get_response(system_instructions, input, *given, **named)
        except Exception as error:
            call = await self._shorter(call, error)
            if call is None:
                raise
            response = await self._inner.get_response(system_instructions, _items(call.shown), *given, **named)
        await self._heard(call, response.usage, response.output)
        return response

    async def stream_response(
        self, system_instructions: str | None, input: Any, *given: Any, **named: Any
    ) -> AsyncIterator[Any]:
        call, begun = _call.get(), False
        try:
            async for event in self._inner.stream_response(system_instructions, input, *given, **named):
                await self._listened(call, event)
                begun = True
                yield event
            return
        except Exception as error:
            # what has been streamed cannot be taken back
            call = None if begun else await self._shorter(call, error)
            if call is None:
                raise
        async for event in self._inner.stream_response(system_instructions, _items(call.shown), *given, **named):
            await self._listened(call, event)
            yield event

    async def close(self) -> None:
        await self._inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._inner._cleanup_on_run_end(owner)

    async def _shorter(self, call: _Call | None, error: Exception) -> _Call | None:
        if call is None:
            return None
        shown = await self._adapter.arun(self._adapter.shorter(call.shown, call.atoms, error))
        return None if shown is None else _Call(shown, call.atoms)

    async def _listened(self, call: _Call | None, event: Any) -> None:
        if getattr(event, "type", "") == "response.completed":
            await self._heard(call, event.response.usage, event.response.output)

    async def _heard(self, call: _Call | None, usage: Any, output: Sequence[Any]) -> None:
        if call is None:
            return
        asked = [one.call_id for one in output if getattr(one, "type", "") == "function_call"]
        self._adapter.asked(call.shown, asked)
        if usage is not None:
            cached = getattr(usage.input_tokens_details, "cached_tokens", 0) or 0
            report = self._adapter.used(
                call.shown, sent=usage.input_tokens, answered=usage.output_tokens, cached=cached
            )
            await self._adapter.arun(report)
        if not any(getattr(one, "type", "").endswith("_call") for one in output):
            # the answer that ends a run: without a session nobody else brings it
            told = [one.model_dump(exclude_unset=True) for one in output]
            await self._adapter.arun(self._adapter.keep(self._name, [*call.atoms, *_atoms(told)]))


def _atoms(items: Iterable[Item]) -> list[Atom]:
    return [Atom(chat=cast(Mapping[str, Any], item), source=item) for item in items]


def _items(shown: Shown) -> list[Item]:
    return [one.chat if one.source is None else one.source for one in shown.seen]
