"""The sizes follow from the inputs: twice the agents is twice the work, and what binds is what there is least of."""

import pytest
from msgspec.structs import replace

from tests.programs.bench.runs import Machine, Row, Run
from tests.programs.sizing.__main__ import INPUTS, measured, text_of
from tests.programs.sizing.model import Asked, Measured, sized

HERE = Measured(
    append_ms=0.1,
    commit_ms=0.2,
    worker_ms=10,
    server_ms=2,
    turn_bytes=20_000,
    restart_seconds=1,
    restart_conversations=100_000,
    conversation_bytes=500,
)
ASKED = Asked(agents=100_000, turns_per_hour=36, working_share=0.5, hours_per_day=10, kept_days=10)


def test_each_size_follows_from_the_inputs() -> None:
    found = sized(ASKED, HERE)
    assert found.turns_per_second == 500
    # 500 turns of 3 appends and 3 commits are 0.15 + 0.3 of a processor, of which a quarter may be used
    assert found.partitions == 2
    # 500 turns of 10 ms are 5 processors, half busy
    assert found.worker_cores == 10
    assert (found.worker_machines, found.servers) == (2, 3)
    # 180 million turns of 20 KB, on three servers in three copies
    assert found.disk_gb == pytest.approx(3_600)
    assert found.store_gb == pytest.approx(1_440)
    assert found.server_memory_gb == pytest.approx(0.5)
    assert found.restart_seconds == pytest.approx(10)
    assert found.euro == pytest.approx(5 * 60 + 3 * 3_600 * 0.05 + 1_440 * 0.006)


@pytest.mark.parametrize(
    ("changed", "size"),
    [
        ({"append_ms": 9.0}, "partitions"),
        ({"commit_ms": 9.0}, "partitions"),
        ({"worker_ms": 100.0}, "worker_machines"),
        ({"server_ms": 100.0}, "servers"),
        ({"conversation_bytes": 50_000.0}, "servers"),
        ({"turn_bytes": 80_000.0}, "disk_gb"),
        ({"restart_seconds": 9.0}, "restart_seconds"),
    ],
)
def test_what_is_worse_takes_more(changed: dict[str, float], size: str) -> None:
    more = sized(ASKED, replace(HERE, **changed))
    assert getattr(more, size) > getattr(sized(ASKED, HERE), size)


def test_the_inputs_are_rows_of_a_run() -> None:
    rows = {
        f"{begins}100,000 conversations, and more": Row(value=place) for place, begins in enumerate(INPUTS.values(), 1)
    }
    machine = Machine(processor="one", cores=2, memory_gb=8, python="3.11.7")
    run = Run(part="limits", time="2026-11-22T12:00:00Z", commit="", machine=machine, load=0, seconds=1, rows=rows)
    found = measured(run)
    assert (found.append_ms, found.conversation_bytes) == (1, 7)
    assert found.restart_conversations == 100_000
    rows.pop(next(iter(rows)))
    with pytest.raises(SystemExit, match="for one append"):
        measured(run)


def test_the_table_has_a_column_for_each_number_of_agents() -> None:
    table = text_of([sized(replace(ASKED, agents=agents), HERE) for agents in (10_000, 1_000_000)])
    assert table.splitlines()[0] == "| agents | 10,000 | 1,000,000 |"
    assert {line.count("|") for line in table.splitlines()} == {4}
