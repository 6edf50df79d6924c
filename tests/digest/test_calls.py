"""Calls and what came of them: what failed, what was refused, and words that nobody can read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors.core.message_texts import MessageText
from actors.digest.calls import call_text
from actors.digest.clips import without_endless_words
from actors.digest.failures import failure_in, refusal_in
from actors.digest.hindsight import Hindsight
from actors.digest.written_files import line_of
from tests.builders import user

from .test_account import account, called, looks, play, told
from .test_account_room import talk


def test_of_a_word_that_nobody_can_read_its_beginning_is_told() -> None:
    key, name = "B036AC504792CE486E00" * 13, "a_file_with_a_long_name" * 4
    told_ = without_endless_words(json.dumps({"command": f"mk -n 0x{key} -e 5 > {name}.pub", "text": "漢字" * 200}))
    assert json.loads(told_) == {"command": f"mk -n 0xB036AC504792CE486E… -e 5 > {name}.pub", "text": "漢字" * 200}


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("3 failed, 80 passed in 2.32s", True),
        ("Tests:       2 failed, 14 passed, 16 total", True),
        ("2 warnings, 12 errors in 1.98s", True),
        ("349:2026-11-03T15:17:26 ERROR [orders-7c9f] CheckoutService: could not reserve stock", False),
        ("     12 ERROR [orders-7c9f]", False),
        ("0.2 errors a second", False),
    ],
)
def test_a_line_of_a_log_is_no_failure_of_the_call_that_shows_it(line: str, fails: bool) -> None:
    assert bool(failure_in(f"== orders.log\n{line}\nthe end", rules_3=True)) == fails


@pytest.mark.parametrize("above", range(1440, 1520, 7))
def test_that_nothing_was_changed_is_found_wherever_the_line_stands(above: int) -> None:
    line = "Your changes have NOT been applied. Please fix your edit command and try again."
    assert refusal_in(f"{'x' * above}\n{line}\nDo not run it again.", rules_3=True) == line


def test_what_a_shell_wrote_is_told_by_its_files() -> None:
    write = "cat > out/stock.py <<'E'\nprint('x > y')\nE\npytest out"
    of = play(talk(2_000), user("Repair the stock."), *called(1, "bash", "1 failed in 0.1s", command=write))
    play(of, *called(2, "bash", "ok", command="sed -i 's/a/b/' src/shop.py 2>/dev/null"))
    play(of, *called(3, "bash", "n", command="awk '$4 > 500' shop.log; ls 2>/dev/null"))
    look = "echo '== what was set'; python3 - <<'E'\nrows.update(add=1)\nE"
    play(of, *called(4, "bash", "n", command=look), *looks(5, 30))
    (line,) = [line for line in told(of).split("\n") if line.startswith("Changed")]
    assert re.findall(r"[\w/]+\.py", line) == ["out/stock.py", "src/shop.py"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["bash", "-lc", "cd app && ls > a.txt"], "cd app && ls > a.txt"),
        (["/bin/zsh", "-l", "-c", "ls"], "ls"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
        (["bash", "run.sh"], "bash run.sh"),
        (["ls"], "ls"),
        (["bash"], "bash"),
    ],
)
def test_a_command_in_words_is_a_line(words: list[str], line: str) -> None:
    assert line_of(words) == line


def test_calls_of_a_shell_in_words_are_told_as_lines_are() -> None:
    of = play(talk(2_500), user("Repair the stock."))
    for at in range(1, 13):
        write = ["bash", "-lc", f"cat > src/part_{at}.py <<'E'\nprint({at})\nE"]
        play(of, *called(at, "shell", "ok", command=write, workdir="/srv"))
        look = ["bash", "-lc", f"sed -n {at}p src/stock.py; echo \ud800"]
        play(of, *called(100 + at, "shell", "row: ok\n" * 6, command=look, workdir="/srv"))
    play(of, *looks(500, 6))
    assert "src/part_9.py" in told(of)
    assert "bash, -lc" not in "".join(act.call + act.target for step in account(of).steps for act in step.acts)


def test_a_numbered_thought_is_what_the_assistant_said() -> None:
    thought = "The valve leaks because its seal is of the wrong size."
    done = '{"thoughtNumber": 1, "totalThoughts": 8, "nextThoughtNeeded": true}'
    numbered: dict[str, Any] = {"thought": thought, "thoughtNumber": 1, "nextThoughtNeeded": True}
    of = play(talk(2_500), user("Why?"), *called(2, "mcp_Sequential_Thinking_sequentialthinking", done, **numbered))
    play(of, *looks(30, 20))
    assert any(step.said == thought and not step.acts for step in account(of).steps)


def test_switches_of_a_command_that_are_off_are_not_told() -> None:
    make = called(2, "shell", "All pumps are built.", command="make all", requires_approval=False)
    ship = called(4, "shell", "It is shipped to shop 9.", command="make ship", requires_approval=True)
    of = play(talk(3_000), user("Build it."), *make, *ship, *looks(30, 12))
    calls = [act.call for step in account(of).steps for act in step.acts if act.call.startswith("shell")]
    assert calls == ["shell make all", "shell command make ship, requires_approval true"]


PATCH = (
    "*** Begin Patch\n*** Update File: /srv/plant/app/pumps/flow.py\n@@ def open\n     check()\n-    rate = 7\n"
    "+    rate = 9\n@@\n-old\n+new\n*** Add File: /srv/plant/b.py\n+print(1)\n*** End Patch"
)


@pytest.mark.parametrize("arguments", [json.dumps({"input": PATCH}), PATCH])
def test_a_patch_is_told_by_its_files_and_by_what_is_new_and_gone(arguments: str) -> None:
    call = MessageText(number=1, text=arguments, tool="apply_patch", trust="assistant", call="c")
    told_ = call_text(call, chars=400, hindsight=Hindsight.of((), (), rules_3=True))
    first, *lines = told_.split("\n")
    assert first == "apply_patch …/app/pumps/flow.py, …/srv/plant/b.py"
    assert lines == ["+     rate = 9", "+ new", "+ print(1)", "-     rate = 7", "- old", "      check()"]


def test_how_long_a_command_may_run_is_not_told() -> None:
    given = {"cmd": "make test", "yield_time_ms": 1000, "max_output_tokens": 30_000, "port": 8080}
    call = MessageText(number=1, text=json.dumps(given), tool="exec_command", trust="assistant", call="c")
    assert (
        call_text(call, chars=400, hindsight=Hindsight.of((), (), rules_3=True))
        == "exec_command cmd make test, port 8080"
    )
