"""Replay on other Pythons: the same bytes, whatever the version, the hash seed, the locale and the time zone.

Looked for are environments with what the project needs: `.venv-3.*` beside `.venv`, or the interpreters that
`TESTS_PYTHONS` names. `python3.13 -m venv .venv-3.13`, then its `pip install -r infra/lock/requirements.txt`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from actors.audit.bundle import Bundle, Lack, packed
from actors.audit.replay import replay
from actors.audit.verify import mentioned
from protocol.ids import address
from tests.audit.recorded import serve
from tests.builders import Talk, assistant, policy, result, sample, user, words
from tests.squeeze.summarizers import extractive

ROOT = Path(__file__).parents[2]
NEWER = "\U00011f50\U00011f51 \U0001e4f0 \U00011240 \U0003134a \U00010d40\U00010d41"
"""Digits and letters that Python 3.11 does not know, 3.12 or 3.14 do, and 3.13's CJK."""

SETTINGS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "77", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"},
)


def interpreters() -> list[Path]:
    named = os.environ.get("TESTS_PYTHONS", "")
    found = [Path(name) for name in named.split(os.pathsep) if name] or sorted(ROOT.glob(".venv-3.*/bin/python"))
    return [path for path in found if path.exists()]


@cache
def talked() -> Talk:
    """Return the sample in a narrow window, with an LLM, and with characters that Pythons do not agree about."""
    talk = Talk(
        policy(3000, squeeze={"mode": "squeeze", "model": "m"}, target={"min_gain": 0.01}),
        at=address("elsewhere", "tests"),
    )
    talk.answer = extractive
    for number, message in enumerate(sample()[:100]):
        talk.play(message)
        if message["role"] == "user" or number % 20 == 19:
            odd = assistant(f"port=8080 {NEWER}, straße İstanbul ﬁ {number}", f"odd{number}")
            odd["tool_calls"][0]["function"]["name"] = f"read{number}1234567{NEWER[:2]}"
            talk.play(odd, result(f"odd{number}", f"replicas={number}{NEWER} /srv/{NEWER}/x.py\n" + words(300)))
            talk.play(user(f"You must never touch {NEWER} port={number}."))
            serve(talk)
    return talk


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    talk = talked()
    missing: dict[str, Lack] = dict.fromkeys(mentioned(talk.at, talk.records), "not there")
    file = tmp_path_factory.mktemp("bundle") / "elsewhere.tar"
    file.write_bytes(packed(Bundle(at=talk.at, records=tuple(talk.records), missing=missing)))
    return file


def ran(python: Path | str, arguments: list[str], setting: dict[str, str], home: Path) -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **setting}
    done = subprocess.run(
        [str(python), *arguments], cwd=ROOT, env=environment, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:].decode("utf-8", "replace")
    return done.stdout


def test_what_is_to_be_replayed_elsewhere_holds_every_kind_of_step() -> None:
    found = replay(talked().at, talked().records)
    assert found.divergence is None
    assert found.decided_again > 40
    assert found.views > 5
    names = {type(fact).__name__ for fact in talked().facts}
    assert names >= {"ToolOutputSpilled", "HistoryDigested", "DigestSqueezed", "ContextServed"}


@pytest.mark.slow
def test_a_bundle_is_replayed_to_the_same_bytes_by_every_python(bundle: Path, tmp_path: Path) -> None:
    others = interpreters()
    if not others:
        pytest.skip("no other Python with the dependencies: make .venv-3.12, .venv-3.13, or name TESTS_PYTHONS")
    command = ["-c", "from actors.cli import main; main()", "replay", str(bundle), "--verify", "--json"]
    wanted = ran(sys.executable, command, SETTINGS[0], tmp_path)
    assert msgspec.json.decode(wanted)["hash"] == talked().state.hash.hex()
    for python in others:
        for setting in SETTINGS:
            assert ran(python, command, setting, tmp_path) == wanted, (python, setting)


@pytest.mark.slow
def test_the_golden_logs_fold_and_are_decided_again_by_every_python(tmp_path: Path) -> None:
    others = interpreters()
    if not others:
        pytest.skip("no other Python with the dependencies: make .venv-3.12, .venv-3.13, or name TESTS_PYTHONS")
    for python in others:
        ran(python, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/test_golden.py"], {}, tmp_path)
