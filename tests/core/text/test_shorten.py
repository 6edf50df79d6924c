"""Shorten: fewer tokens by the means of a kind; what tells stays, what goes is counted in place."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.kinds import Kind, kind_of
from actors.core.text.preview import preview
from actors.core.text.shorten.by_kind import shorten, shorten_text
from actors.core.text.shorten.log import shorten_log
from actors.spill.pointer import named_values, shown_result
from tests.builders import COUNT, words
from tests.laws import LAWS

KINDS: tuple[Kind, ...] = get_args(Kind)
BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 20
FRAMES = "".join(f'  File "/srv/app/m{n}.py", line {n}, in step_{n}\n    call_{n}()\n' for n in range(60))
TRACE = (
    f"Traceback (most recent call last):\n{FRAMES}KeyError: 'ORD-7'\n\nDuring handling of the above exception, another "
    f"exception occurred:\n\nTraceback (most recent call last):\n{FRAMES}app.Failed: no order ORD-7"
)
JAVA = (
    'Exception in thread "main" a.B: x\n'
    + "\tat a.b.C.d(C.java:1)\n" * 90
    + "Caused by: c.D: full\n\tat e.F.g(F.java:2)"
)
DIFF = (
    "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,90 +1,90 @@\n"
    + " same\n" * 90
    + "-old\n+new\n"
    + " same\n" * 90
)
TABLE = "NAME      READY   STATUS\n" + "".join(
    f"web-{n:03}   1/1     {'Pending' if n == 100 else 'Running'}\n" for n in range(200)
)
SEARCH = "\n".join(f"src/app/file{n // 20}.py:{n}:    value_{n} = compute({n})" for n in range(200))
LOG = "".join(f"2026-01-01 10:00:00 {'ERROR no disk' if n == 300 else 'INFO tick'} {n}\n" for n in range(900))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}', "json"),
        (" [1, 2]", "json"),
        ("{not json", "text"),
        ("[" * 100_000, "text"),
        ('{"a": NaN}', "text"),
        ("diff --git a/x b/x\n", "diff"),
        ("index\n@@ -1 +1 @@", "diff"),
        ("# Title\n---\nkey: value\n---\n- item: x\n", "text"),
        ("-----BEGIN CERTIFICATE-----\nabc\n---\n", "text"),
        ("x\nTraceback (most recent call last):\n", "trace"),
        (JAVA, "trace"),
        ("panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\t/a/b.go:3", "trace"),
        ("TypeError: x\n    at f (/a/b.js:1:2)\n", "trace"),
        ("<!DOCTYPE html><p>", "html"),
        ("<HTML>", "html"),
        (LOG, "log"),
        (TABLE, "table"),
        (SEARCH, "search"),
        ("id,name,state\n1,a,x\n2,b,y\n3,c,z", "csv"),
        ('id,name,state\n1,"a, b",x\n2,"c, ""d"", e",y\n3,c,z', "csv"),
        ("./a/b.py\n./a/c.py\n./d/e.py", "listing"),
        (BASE64, "base64"),
        ("data: the base64 of it is kept; see the base64 tool\n" * 9, "text"),
        ("a" * 5000, "text"),
        ("\x00\x01\x02ELF" * 50, "binary"),
        ("plain", "text"),
        ("", "text"),
        ("\ud800" * 500, "binary"),
    ],
)
def test_a_text_is_what_it_looks_like(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def short(text: str, tokens_max: int = 200) -> str:
    shown = shorten(text, kind_of(text), tokens_max=tokens_max, count=COUNT)
    assert 0 < COUNT(shown) <= tokens_max
    return shown


def test_json_stays_json_with_its_keys_in_order_and_says_what_is_gone() -> None:
    rows = [{"z": n, "b": "ok", "none": None, "a": words(4)} for n in range(300)]
    rows[150] = {"z": 150, "b": "error: no disk"}
    shown = json.loads(short(json.dumps({"rows": rows, "empty": []})))
    assert list(shown) == ["rows"]
    assert list(shown["rows"][0]) == ["z", "b", "a"]
    assert {"z": 150, "b": "error: no disk"} in shown["rows"]
    gone = sum(int(row.split()[1].replace(",", "")) for row in shown["rows"] if isinstance(row, str))
    assert gone + sum(isinstance(row, dict) for row in shown["rows"]) == 300


def test_the_one_error_of_a_log_stands_before_hundreds_of_warnings() -> None:
    kinds = [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)]
    lines = [f"2026-11-21T10:00:00Z WARN svc-{kind} slow answer of {kind}" for kind in kinds]
    lines.insert(500, "2026-11-21T13:02:11Z ERROR svc-c OutOfMemory: heap 512 MB exhausted")
    for shorten_one in (shorten_log, shorten_text):
        assert "OutOfMemory" in shorten_one("\n".join(lines), count=COUNT)(400)


def test_a_log_keeps_its_errors_and_tells_a_run_once() -> None:
    shown = short(LOG, 300)
    assert "ERROR no disk 300" in shown
    assert "more like it but for numbers" in shown


@pytest.mark.parametrize(
    "wanted", ["KeyError: 'ORD-7'", "During handling", "app.Failed: no order ORD-7", "frames left out"]
)
def test_a_trace_keeps_every_error(wanted: str) -> None:
    assert wanted in short(TRACE, 400)


def test_a_java_trace_keeps_its_causes_and_loses_inner_frames() -> None:
    frames = "".join(f"\tat a.b.C.d{n}(C.java:{n})\n" for n in range(90))
    text = (
        f'Exception in thread "main" a.B: x\n{frames}Caused by: c.D: full\n{frames}\t... 60 more\nCaused by: e.F: ORD-7'
    )
    shown = short(text, 250)
    assert shown.count("frames left out") == 2
    assert "Caused by: c.D: full" in shown
    assert shown.endswith("Caused by: e.F: ORD-7")


def test_a_go_trace_keeps_its_panic_and_the_ends_of_its_stack() -> None:
    calls = "".join(f"main.step{n}(0xc0, 0x{n})\n\t/srv/m{n}.go:{n} +0x1d\n" for n in range(60))
    shown = short(f"panic: index out of range [5]\n\ngoroutine 1 [running]:\n{calls}exit status 2", 200)
    assert shown.startswith("panic: index out of range [5]\n\ngoroutine 1 [running]:\nmain.step0")
    assert "[… 55 frames left out …]\nmain.step57" in shown
    assert shown.endswith("\t/srv/m59.go:59 +0x1d\nexit status 2")


def test_a_javascript_trace_keeps_its_cause() -> None:
    frames = "".join(f"    at step{n} (/srv/m{n}.js:{n}:7)\n" for n in range(60))
    shown = short(f"TypeError: no id\n{frames}  [cause]: Error: no order ORD-7\n  {frames}", 250)
    assert shown.startswith("TypeError: no id\n    at step0")
    assert "[cause]: Error: no order ORD-7" in shown
    assert shown.count("frames left out") == 2


def test_a_diff_loses_its_context_first() -> None:
    shown = short(DIFF, 100)
    assert "+++ b/x.py" in shown
    assert "-old\n+new" in shown
    assert "[… 90 context lines left out …]" in shown


def test_a_table_keeps_its_header_its_ends_and_the_odd_row() -> None:
    shown = short(TABLE)
    assert shown.startswith("NAME ")
    assert "web-100   1/1     Pending" in shown
    assert "web-199" in shown


def test_hits_are_told_under_their_file() -> None:
    shown = short(SEARCH, 2500)
    assert shown.count("src/app/file3.py") == 1
    assert " 63:    value_63 = compute(63)" in shown


def test_of_html_the_text_stays() -> None:
    page = (
        "<html><script>var x=1</script><body>"
        + "<p class='c'>A &amp; B</p>" * 50
        + "<a href='https://x.example/1'>go</a>"
    )
    shown = short(page, 300)
    assert shown.startswith("A & B")
    assert "https://x.example/1" in shown
    assert "<p" not in shown
    assert "var x" not in shown


def test_encoded_bytes_are_described() -> None:
    assert short(BASE64, 60).startswith("[base64: 880 characters, about 660 bytes, PNG image")
    assert "[base64: 880 characters" in short(f"{words(50)}\n" * 9 + BASE64)


def test_values_of_what_is_left_out_are_named() -> None:
    text = "\n".join(f"{words(20)} {'see /srv/hidden/file.py' if n == 40 else ''}" for n in range(99))
    assert "/srv/hidden/file.py" in shown_result(text, "text", index=0.5, count=COUNT)(200)
    assert named_values(["x_y"] * 99, tokens_max=5, count=COUNT) == ""


@given(
    piece=st.one_of(
        st.text(st.characters(), min_size=1, max_size=40),
        st.sampled_from(
            (LOG[:300], TRACE[:400], DIFF[:300], TABLE[:200], SEARCH[:200], '{"a": ["\\ud800", 1e99],', "[[", "<a <")
        ),
    ),
    times=st.integers(1, 400),
    kind=st.sampled_from(KINDS),
    tokens_max=st.integers(0, 500),
)
@LAWS
def test_any_text_seen_as_any_kind_stays_within_its_bound(piece: str, times: int, kind: Kind, tokens_max: int) -> None:
    text = piece * times
    shown = shorten(text, kind, tokens_max=tokens_max, count=COUNT)
    assert COUNT(shown) <= tokens_max
    assert len(shown) <= max(len(text), 0)
    assert shown == shorten(text, kind, tokens_max=tokens_max, count=COUNT)
    assert shown.encode() is not None
    kind_of(text)


@given(
    value=st.recursive(
        st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    tokens_max=st.integers(0, 60),
)
@LAWS
def test_whatever_is_json_stays_json_or_is_a_preview(value: object, tokens_max: int) -> None:
    text = json.dumps([value] * 9)
    shown = shorten(text, "json", tokens_max=tokens_max, count=COUNT)
    assert COUNT(shown) <= tokens_max
    if shown != preview(text, tokens_max=tokens_max, count=COUNT):
        assert isinstance(json.loads(shown), list)
