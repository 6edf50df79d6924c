"""An erased conversation, as who asks about it meets it on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli import jettison
from tests.stack import jettison_up

ERASED = r" was erased on 2\d{3}-\d\d-\d\d at \d\d:\d\d:\d\d UTC"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("erased")
    with jettison_up(found):
        yield found


def test_every_question_about_an_erased_conversation_says_when_it_was_erased(data: Path, tmp_path: Path) -> None:
    file, bundle = tmp_path / "talk.json", tmp_path / "talk.tar"
    file.write_text(json.dumps([{"role": "user", "content": "fine"}]))
    done = jettison("compact", str(file), "--budget", "900", "--data", str(data), "--json")
    conv = json.loads(done.stdout)["address"]
    assert jettison("export", conv, "--out", str(bundle), "--data", str(data)).returncode == 0
    first = jettison("erase", conv, "--yes", "--data", str(data))
    assert (first.returncode, first.stderr) == (0, "")
    for asked in (
        ("why", conv, "1"),
        ("where", conv, "fine"),
        ("diff", f"{conv}@1", "@2"),
        ("show", conv),
        ("show", conv, "--served"),
        ("import", str(bundle)),
        ("rewind", conv, "--to", "1"),
        ("fork", conv, "risen"),
        ("expand", conv, "--messages", "1"),
    ):
        refused = jettison(*asked, "--data", str(data))
        assert (refused.returncode, refused.stdout) == (1, ""), asked
        assert re.search(f"{conv}{ERASED}", refused.stderr), (asked, refused.stderr)
    again = jettison("erase", conv, "--yes", "--data", str(data))
    assert json.loads(again.stdout)["tombstone"] == json.loads(first.stdout)["tombstone"]
    assert re.search(f"{conv}{ERASED} by .*; what came since is removed", again.stderr)
    assert jettison("versions", conv, "--data", str(data)).returncode == 0, "the tombstone is shown"
