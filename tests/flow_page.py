"""The diagram of the flow in `architecture.md`, drawn from the table that is executed."""

from __future__ import annotations

from collections.abc import Iterable

from actors.core.flow import FLOW, FlowRow
from actors.core.known_facts import KNOWN
from protocol.subjects import ACTORS


def mermaid() -> str:
    """Return the flow as a Mermaid diagram."""
    facts = (f'    {actor}["{"<br>".join((actor, *written_by(actor)))}"]' for actor in ACTORS)
    ends = ('    log{"the log"}', '    ready(["ready"])', '    agent(["agent"]) --> log', "    spill --> log")
    whens = dict[tuple[str, str], dict[str, None]]()
    for after, when, then in (arrow for row in FLOW for arrow in _arrows(row)):
        whens.setdefault((after, then), {})[when] = None
    arrows = (f'    {after} -- "{"<br>".join(some)}" --> {then}' for (after, then), some in whens.items())
    return "\n".join(["flowchart LR", *facts, *ends, *arrows])


def written_by(actor: str) -> tuple[str, ...]:
    """Return the names of the facts that *actor* alone writes."""
    return tuple(kind.__name__ for kind, one in KNOWN.items() if one.whose == actor)


def _arrows(row: FlowRow) -> Iterable[tuple[str, str, str]]:
    """Yield after whom, when and who is next by *row*; a compaction that is under way goes on at any of its stages."""
    after = row.after if row.after in ACTORS else "log"
    stages = dict.fromkeys(one.then for one in FLOW if one.after != "log" and one.then in ACTORS)
    for then in stages if row.then == "stage" else (row.then,):
        yield after, row.when, then
