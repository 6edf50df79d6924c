"""README's diagram of the flow, drawn from the table that is executed."""

from __future__ import annotations

from collections.abc import Iterable

from actors.core.flow import FLOW, FlowRow
from actors.core.known_facts import KNOWN
from protocol.subjects import ACTORS


def mermaid() -> str:
    """Return the flow as a Mermaid diagram."""
    facts = (f'    {actor}["{"<br>".join((actor, *written_by(actor)))}"]' for actor in ACTORS)
    ends = ('    log{"the log"}', '    ready(["ready"])', '    agent(["agent"]) --> log', "    spill --> log")
    return "\n".join(["flowchart LR", *facts, *ends, *dict.fromkeys(line for row in FLOW for line in _drawn(row))])


def written_by(actor: str) -> tuple[str, ...]:
    """Return the names of the facts that *actor* alone writes."""
    return tuple(kind.__name__ for kind, one in KNOWN.items() if one.whose == actor)


def _drawn(row: FlowRow) -> Iterable[str]:
    """Yield the arrows of *row*; a compaction that is under way goes on at any of its stages."""
    after = row.after if row.after in ACTORS else "log"
    stages = dict.fromkeys(one.then for one in FLOW if one.after != "log" and one.then in ACTORS)
    for then in stages if row.then == "stage" else (row.then,):
        yield f'    {after} -- "{row.when}" --> {then}'
