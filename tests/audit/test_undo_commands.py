"""Expand, rewind and fork as a user meets them: separate processes, real servers, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from protocol.ids import fresh_id
from tests.cli.test_cli import SAMPLE, jettison


@pytest.fixture(scope="module")
def sample(data: Path) -> str:
    """Play the sample through the stack, under a policy that spills what may be put back; return its address."""
    policy = data / "spills.json"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(json.dumps({"spill": {"share": 0.08}}))
    play = ("compact", str(SAMPLE), "--budget", "8000", "--policy", str(policy), "--by-turn")
    done = jettison(*play, "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["address"])


@pytest.fixture
def played(data: Path, sample: str) -> str:
    """Return a copy of the sample's conversation, which a test may change."""
    new = f"{sample}-{fresh_id()[:8]}"
    told(data, "fork", f"{sample}@{told(data, 'versions', sample)[-1]['version']}", new)
    return new


def told(data: Path, *arguments: str) -> Any:
    done = jettison(*arguments, "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return found if arguments[0] == "versions" else found[0]


def refused(data: Path, *arguments: str) -> str:
    done = jettison(*arguments, "--data", str(data))
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_was_digested_is_put_back_undone_and_forked(data: Path, played: str) -> None:
    rows = told(data, "versions", played)
    newest = rows[-1]["version"]
    digested = next(row["version"] for row in rows if "HistoryAccounted" in row["facts"])
    assert "tokens more" in refused(data, "expand", played, "--messages", "1-150")
    gone = next(
        row["number"]
        for row in told(data, "diff", f"{played}@{digested - 1}", f"@{newest}")["rows"]
        if row["did"] == "digested" and row["number"]
    )
    put_back = told(data, "expand", played, "--messages", str(gone))
    assert gone in put_back["restored"]
    assert put_back["after_tokens"] > put_back["before_tokens"]
    assert told(data, "why", played, str(gone))["history"][-1]["did"] == "restored"
    assert told(data, "expand", played, "--messages", str(gone))["restored"] == []

    rewound = told(data, "rewind", played, "--to", str(digested - 1))
    assert rewound["version"] == put_back["version"] + 1
    then = told(data, "show", f"{played}@{digested - 1}")
    assert told(data, "show", f"{played}@{rewound['version']}")["messages"] == then["messages"]
    assert "has no version 99999" in refused(data, "rewind", played, "--to", "99999")

    new = f"{played}-fork"
    forked = told(data, "fork", f"{played}@{rewound['version']}", new)
    assert (forked["parent"], forked["version"]) == (played, rewound["version"])
    assert told(data, "fork", f"{played}@{rewound['version']}", new)["records"] == 0
    assert told(data, "show", f"{new}@{rewound['version']}")["messages"] == then["messages"]
    assert "another history" in refused(data, "fork", f"{played}@3", new)
    assert "stays with its tenant" in refused(data, "fork", f"{played}@3", "elsewhere/new")

    for conversation in (played, new):
        assert told(data, "verify", conversation)["ok"] is True
        assert told(data, "replay", conversation, "--verify")["divergence"] is None


def test_a_spilled_artifact_is_put_back_in_full(data: Path, played: str) -> None:
    facts = [json.loads(line) for line in jettison("log", played, "--data", str(data), "--json").stdout.splitlines()]
    spilled = [one for one in facts if one.get("fact") == "ToolOutputSpilled"]
    smallest = min(spilled, key=lambda one: one["tokens"])
    before = told(data, "show", played)["tokens"]
    put_back = told(data, "expand", played, "--artifact", smallest["sha256"][:16])
    assert put_back["parts"] == 1
    assert put_back["before_tokens"] <= before < put_back["after_tokens"]
    assert told(data, "expand", played, "--artifact", smallest["sha256"])["parts"] == 0
    assert "no part of" in refused(data, "expand", played, "--artifact", "0" * 16)
    assert told(data, "replay", played, "--verify")["divergence"] is None
