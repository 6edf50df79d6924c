"""What is shown of a result: the same in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from actors.core.text.clipping import clipped_line, clipped_lines
from actors.core.text.excerpt import excerpt, readable_lines, sentences_excerpt
from actors.core.text.gaps import GAP
from actors.core.text.table import is_header

WORTHS = """
from actors.core.text.line_worths import line_worths
words = [f"word{number}" for number in range(40)]
lines = [" ".join(words[start:]) for start in range(0, 30, 3)]
print([repr(worth) for worth in line_worths(lines, lambda word: 0.1 * len(word) + 0.01 * int(word[4:]))])
"""


def test_lines_weigh_the_same_whatever_the_hash_seed_is() -> None:
    """Fractions that are added in another order give another sum, and so another line of two that are as good."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", WORTHS],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            timeout=180,
        ).stdout
        for seed in range(3)
    }
    assert len(printed) == 1


def flights(count: int, airport: str = "MIA") -> str:
    row = {"flight_number": "", "origin": airport, "destination": "DEN", "price": 0}
    rows = [row | {"flight_number": f"HAT{at:03}", "price": 90 + at} for at in range(count)]
    return json.dumps({"reservation": "X7BYG1", "flights": rows, "paid_by": "card_77", "seats": ["s" * 80, "t" * 80]})


def test_the_names_of_columns_stay_such_when_rows_are_left_out_once_and_again() -> None:
    text = flights(30)
    for chars in (300, 180):
        text = excerpt(text, chars=chars, sought=lambda word: float(word == "hat020"))
        lines = text.split("\n")
        (names,) = [place for place, line in enumerate(lines) if is_header(line)]
        assert "HAT020, MIA, DEN, 110" in "\n".join(lines[names + 1 :])


def test_the_names_of_columns_do_not_stand_without_a_row() -> None:
    short = excerpt(flights(30, airport="M" * 150), chars=120, sought=lambda word: float(word == "card_77"))
    assert "paid_by card_77" in short
    assert "flight_number" not in short


def test_the_names_of_columns_stand_above_connections_too() -> None:
    legs = json.loads(flights(30))["flights"]
    text = json.dumps([legs[at : at + 2] for at in range(0, 30, 2)])
    short = excerpt(text, chars=120, sought=lambda word: float(word == "hat020"), clauses=True)
    assert short.split("\n")[1:] == [
        "(flight_number, price):",
        f"{GAP} HAT020, 110; HAT021, 111 {GAP}",
    ]


def test_what_is_left_out_before_a_cut_line_is_marked_once() -> None:
    long = "File updated. Please look at all that was changed and make sure that it is what was wanted here. " * 2
    short = excerpt(f"1: first\n{long}\n", chars=60, sought=lambda word: float(word == "changed"), clauses=True)
    assert short.startswith(GAP)
    assert f"{GAP} {GAP}" not in short


def test_a_line_that_only_repeats_the_question_is_not_told() -> None:
    shown = ["Kind: claim", "Namespace: default", "Labels: none", "Status: Pending", "Annotations: none", "Modes: none"]
    asked = dict.fromkeys(("namespace", "default", "status"), 0.25)
    short = excerpt("\n".join(shown), chars=70, sought=lambda word: asked.get(word, 0.0), clauses=True)
    assert "Status: Pending" in short
    assert "Namespace: default" not in short
    used = excerpt("\n".join(shown), chars=70, sought=lambda word: float(word == "default"), clauses=True)
    assert "Namespace: default" in used


def test_prose_is_shortened_by_sentences_whatever_stands_on_a_line() -> None:
    page = "She likes to sail. " * 30 + "In April 2014 she became president of Grameen America. " + "It rained. " * 40
    short = excerpt(f"{page}\n{page}", chars=160, sought=lambda word: float(word in ("president", "2014")))
    assert "In April 2014 she became president of Grameen America." in short


def test_what_announces_a_reason_stands_with_it() -> None:
    why = "0/1 nodes are available: 1 node(s) did not match the affinity of the pod."
    event = (
        f"Warning FailedScheduling 130m (x2 over 135m) default-scheduler {why} preemption: {'it is of no help. ' * 9}"
    )
    filler = [f"Volume {number} is mounted from kube-api-access" for number in range(20)]
    text = "\n".join([*filler, event, *filler])
    assert why in excerpt(text, chars=220, sought=lambda word: float(word == "failedscheduling"), clauses=True)


def test_of_a_record_the_group_of_figures_that_were_not_used_outlasts_words() -> None:
    flight = (
        "flight HAT208, origin EWR, status available, leaves 12:00:00, prices (basic 53, economy 109, business 357)"
    )
    short = excerpt(f"{flight}, {'note of no use, ' * 20}", chars=90, sought=lambda _: 0.0, clauses=True)
    assert short == "flight HAT208, leaves 12:00:00, prices (basic 53, economy 109, business 357) …"


def test_lists_with_the_same_columns_are_a_line_each_below_their_names() -> None:
    legs = [("HAT084", "DEN"), ("HAT175", "LAS"), ("HAT229", "DEN"), ("HAT266", "LAS")]
    flights = [{"number": number, "origin": origin, "price": at} for at, (number, origin) in enumerate(legs)]
    text = json.dumps([flights[:2], flights[2:]] * 3)
    assert readable_lines(text, indented=True) == [
        "(number, origin, price):",
        *["HAT084, DEN, 0; HAT175, LAS, 1", "HAT229, DEN, 2; HAT266, LAS, 3"] * 3,
    ]


def test_a_long_line_is_cut_between_words() -> None:
    line = " ".join(f"word{at}" for at in range(200))
    short = excerpt(f"{line}\n{line}\n{line}", chars=100, sought=lambda word: float(word == "word120"))
    cut = [word.strip("… ") for word in short.split()]
    assert "word120" in cut
    assert set(filter(None, cut)) <= set(line.split())


def test_a_listing_of_files_keeps_names_and_sizes() -> None:
    rows = [f"-rw-r--r--  1 root root {1000 + at:5} Apr 30 08:32 file_{at}.c" for at in range(20)]
    short = excerpt(
        "\n".join(["total 88", "drwxr-xr-x 2 me me 4096 2024-05-01 10:02 src", *rows]), chars=400, sought=lambda _: 0.0
    )
    assert "src/" in short.split("\n")
    assert all(f"file_{at}.c {1000 + at}" in short for at in range(20))
    assert "root" not in short


def test_a_field_whose_name_has_line_ends_is_shortened_like_any_other() -> None:
    fields = {"a\nb": "x" * 300, "error: c\nd": ["y " * 100, "z" * 200]} | {f"k{at}\n": at for at in range(50)}
    short = excerpt(json.dumps(fields), chars=200, sought=lambda _: 1.0)
    assert 0 < len(short) <= 200


def test_the_number_of_a_line_in_a_file_is_no_word_of_it_and_an_empty_line_is_left_out() -> None:
    page = "\n".join(f"{at:6}\t{f'name_{at} = {at * 7}' if at % 3 else ''}" for at in range(1, 61))
    short = excerpt(f"a.py:\n{page}", chars=120, sought=lambda word: float(word in ("10", "50", "name_43")))
    assert "name_43 = 301" in short
    assert not [line for line in short.split("\n") if line.split("\t")[0].strip(" …") in ("10", "50")]
    assert not [line for line in short.split("\n") if line.endswith("\t")]


def test_a_sentence_does_not_lose_clauses_in_its_middle() -> None:
    said = (
        "In 1851 the two men, who had met in the north some years before the war ended, published a large book, for "
        "which one of them went to Paris in the spring of that year, while the other stayed at home for a long time, "
        "and the prints were made by a well known house of lithographers, a leading one of its day in all of Europe"
    )
    short = excerpt(said, chars=160, sought=lambda word: float(word in ("1851", "leading")), clauses=True)
    assert short.strip("…") in said
    assert short.strip("…") not in excerpt(said, chars=160, sought=lambda word: float(word in ("1851", "leading")))


def test_the_first_order_of_a_list_is_not_left_out_while_others_stand() -> None:
    """Neither where what somebody said is told in sentences, nor where it is told in lines."""
    said = """Three parts of the shop fail and each has a cause of its own, as was seen in the logs of this morning.

### Recommended actions:

1. **At once**: Mend it by the variable that lacks in the deployment
2. **High priority**: Resolve the class of storage for `redis-master-0` and `user-profile-7`
3. **Medium priority**: Fix access to the registry for `crm-webapp-31` that failed 118 times
4. **Later**: Raise the limit of `exporter-5` to 200 MiB

All of them have clear causes and can be acted on."""

    def sought(word: str) -> float:
        return 2.0 if any(letter.isdigit() for letter in word) or word in {"storage", "registry"} else 0.1

    in_lines = excerpt(said, chars=300, sought=sought, clauses=True, ordered=True)
    for told in (in_lines, sentences_excerpt(said, chars=300, sought=sought, clauses=True)):
        assert "3. **Medium" in told, "else this test shows nothing"
        assert "1. **At once**" in told


@pytest.mark.parametrize(
    ("head", "ruler", "row"),
    [
        ("| target | stars | forks | license |", "|---|---|---|---|", "| repo-{0} | {1} | {2} | MIT |"),
        (" id | name | total ", "----+------+-------", "  {0} | pump {1} | {2}"),
        ("id,name,depth", "", "{0},pump {1},{2}"),
        ("   depth  flow  state", "", "{0}  {1}  {2}  dry"),
    ],
)
def test_rows_stand_below_the_names_of_their_columns_and_rulers_are_left_out(head: str, ruler: str, row: str) -> None:
    rows = [row.format(number, number * 7919 % 9973, number * 31) for number in range(60)]
    text = "\n".join(filter(None, (head, ruler, *rows)))
    short = excerpt(text, chars=300, sought=lambda word: float(word == str(40 * 31)), clauses=True)
    assert short.split("\n")[0].rstrip(" …") == head.rstrip()
    assert str(40 * 31) in short
    assert "--" not in short


def test_names_of_columns_take_no_room_from_rows_where_there_is_little() -> None:
    head = "| " + " | ".join(f"column_{number}" for number in range(20)) + " |"
    rows = ["| " + " | ".join(str(row * 20 + number) for number in range(20)) + " |" for row in range(30)]
    short = excerpt("\n".join((head, *rows)), chars=200, sought=lambda _: 0.0, clauses=True)
    assert "column_1" not in short
    assert "|" in short


def test_a_line_of_a_file_that_is_no_more_than_a_fence_is_not_told() -> None:
    lines = [
        f"{number}\t```" if number % 7 == 0 else f"{number}\tstep {number}: turn the wheel" for number in range(90)
    ]
    assert "```" not in excerpt("\n".join(lines), chars=300, sought=lambda _: 0.0, clauses=True)


def test_before_rules_3_a_sentence_that_ends_as_names_of_columns_do_is_taken_for_some() -> None:
    said = (
        "Done! Both colours are in the theme now: `cyan` (links): `#8abeb7` and `green` (diffs): `#b5bd68`, as in the "
        "picture that you sent. Try it with the sample of all elements, and tell me what you would change."
    )
    # as releases that knew no rules 3 told it
    older = "Done! Both colours are in the theme now: … `#b5bd68`, as in the picture that you sent. …"
    assert sentences_excerpt(said, chars=120, sought=lambda _: 0.0) == older


def test_of_a_line_that_is_too_long_a_path_stays_whole_and_a_key_is_told_by_its_beginning() -> None:
    path = "/srv/" + "/".join(f"folder-{at}-of-many" for at in range(6)) + "/notes"
    line = f"{path} is copied with the key {'C0FFEE' * 40}"
    short = excerpt(f"{line}\nand so on", chars=220, sought=lambda _: 0.0, clauses=True)
    assert short == f"{path} is copied with the key C0FFEEC0FFEEC0FFEEC0…\nand so on"


def test_of_lines_that_differ_in_numbers_alone_the_one_whose_number_was_used_is_told() -> None:
    lines = [f"[{at}] Got random number: {1_000_003 * at % 999_983}" for at in range(17)]
    lines.insert(4, "Opening of connections to hosts")
    wanted = f"{1_000_003 * 9 % 999_983}"
    worths = {wanted: 1.0, "opening": 0.8}
    short = excerpt("\n".join(lines), chars=100, sought=lambda word: worths.get(word, 0.0), clauses=True)
    assert f"[9] Got random number: {wanted}" in short
    assert "Opening" not in short


PROGRAM = """
from pumps.errors import PumpError, PumpWarning
import logging
class Pump(Machine):
    def start(self, valve: Valve) -> None:
        if valve.closed:
            raise PumpError("the valve is closed: an error of the operator")
        logging.warning("critical: pump failed to warm up")
        self.state = started(valve)
        return self.state
    @property
    def pressure(self) -> float:
        return self.gauge.read()
        # only never read it twice
        valve.note(self.state)
"""


def test_of_a_program_those_lines_are_told_that_define_something_and_not_its_words_for_errors() -> None:
    numbered = "\n".join(f"{at + 40:6}\t{line}" for at, line in enumerate(PROGRAM.strip().split("\n")))
    short = excerpt(numbered, chars=190, sought=lambda _: 0.0, clauses=True)
    defined = ("class Pump(Machine):", "def start(self, valve: Valve)", "def pressure(self) -> float:")
    assert [one in short for one in defined] == [True] * 3
    assert [one in short for one in ("import", "raise", "warning", "never")] == [False] * 4


def test_what_failed_is_told_though_lines_of_a_program_stand_around_it() -> None:
    failed = f"{PROGRAM.strip()}\nE   PumpError: the valve is closed\ntests/test_pump.py:12: PumpError"
    assert "E  PumpError: the valve is closed" in excerpt(failed, chars=120, sought=lambda _: 0.0, clauses=True)


@pytest.mark.parametrize("heading", ["## Constraints and conditions", "**Anforderungen:**", "Rules:", "## 约束条件"])
def test_what_must_be_kept_is_told_before_what_else_a_brief_says(heading: str) -> None:
    some = "\n".join(f"- Part {at} of it is about pumps of the year {1990 + at}" for at in range(12))
    kept = "- Minor edits count too\n- Limits of the service"
    brief = f"# Brief\n## Background\n{some}\n{heading}\n{kept}\n## Code\n{some}"
    short = excerpt(brief, chars=240, sought=lambda _: 0.0, clauses=True, ordered=True)
    assert kept in short


def test_a_row_that_loses_fields_says_what_the_figures_are_that_stay() -> None:
    legs = [
        {
            "flight_number": f"HAT{number}",
            "origin": f"AIRPORT {number} OF THE SOUTH",
            "destination": f"AIRPORT {number} OF THE NORTH",
            "seats": {"basic": number % 7, "economy": number},
            "price": 70 + number,
        }
        for number in range(200, 260)
    ]
    found = json.dumps([legs[at : at + 2] for at in range(0, 60, 2)])
    told = excerpt(found, chars=110, sought=lambda word: float(word in ("hat200", "270", "271")), clauses=True)
    assert told == (
        f"{GAP} HAT200, seats (basic 4, economy 200), price 270 {GAP}; "
        f"HAT201, seats (basic 5, economy 201), price 271 {GAP}"
    )


def test_what_stands_below_rows_and_is_none_is_not_parted_as_they_are() -> None:
    said = f"The valve was closed; nobody knew why; {'it was opened again and closed, ' * 9}and the pump stopped"
    lines = ["(pump, depth):", "pump-1, 40", said, f"{'pump-22, 70; ' * 30}pump-23, 71"]
    told = clipped_lines(lines, lambda _: 0.0, 100, is_header=is_header, clauses=True)
    assert told[:2] == lines[:2]
    assert told[2:] == [clipped_line(line, lambda _: 0.0, 100, clauses=True) for line in lines[2:]]
    assert max(map(len, told)) <= 100


def test_a_line_that_announces_another_one_gives_way_to_it() -> None:
    found = 'Found 1 matches for "fields.py" in /srv/marshmallow/src:\n/srv/marshmallow/src/marshmallow/fields.py'
    told = excerpt(found, chars=70, sought=lambda word: float(word == "fields.py"), clauses=True)
    assert told == f"{GAP} /srv/marshmallow/src/marshmallow/fields.py"


def test_a_line_of_a_letter_or_a_figure_says_nothing_alone() -> None:
    lines = [
        "Command:",
        "  sh",
        "Args:",
        "  -c",
        "  wget -O - https://example.org/list; exit 125;",
        "  1",
        "State:  Waiting",
    ]
    told = excerpt("\n".join(lines * 4), chars=90, sought=lambda word: float(word in ("1", "125")), clauses=True)
    assert "exit 125" in told
    assert not {"-c", "1"} & {line.strip(f"{GAP} ") for line in told.split("\n")}


def test_what_happened_again_is_told_once_and_what_is_not_there_does_not_stand_for_it() -> None:
    """A pod that ran out of memory, as `kubectl describe` tells it: two lines said the same, and no room was left."""
    lines = [
        "Name:  shop",
        "Host Port:  <none>",
        "    Last State:  Terminated",
        "      Reason:  OOMKilled",
        "Port:  <none>",
    ]
    pulled = '  Warning  Failed  {}  kubelet  Failed to pull image "registry.example/shop/memory:1.0": QPS exceeded'
    lines += [pulled.format("18h"), "  Normal  Pulling  18h  kubelet  Pulling it", pulled.format("18h (x2 over 18h)")]
    text = "\n".join([*lines, *(f"  Normal  Created  {at}h  kubelet  Created container" for at in range(9))])
    told = excerpt(text, chars=260, sought=lambda word: 0.3 * (word in ("failed", "oomkilled", "qps")), clauses=True)
    assert told.count("QPS exceeded") == 1
    assert "Reason:  OOMKilled" in told
    assert "\nPort:  <none>" not in told


@pytest.mark.parametrize("nothing", ["[]", " {}\n", "null"])
def test_an_empty_list_is_an_answer(nothing: str) -> None:
    assert excerpt(nothing, chars=50, sought=lambda _: 0.0, clauses=True) == nothing.strip()


def test_of_a_part_of_a_file_the_line_that_is_meant_by_its_number_is_told() -> None:
    page = "\n".join(f"{at}:    step_{at % 9}(valve, pump, {at * 7})" for at in range(1400, 1500))
    short = excerpt(page, chars=120, sought=lambda word: 0.3 * (word == "1474"), clauses=True)
    assert "1474:    step_7(valve, pump, 10318)" in short
    ends = excerpt(page, chars=120, sought=lambda word: float(word in ("1400", "1499", "12")), clauses=True)
    assert ends == excerpt(page, chars=120, sought=lambda _: 0.0, clauses=True), (
        "who looks at lines 1 to 50 means no 50"
    )


def seen(word: str) -> float:
    return 9.0 * (word in {"anzeige", "antrag", "musée", "inspection"})


@pytest.mark.parametrize(
    "text", ["Die Anzeige muss bis 27. September bei Frau Albers sein.", "The inspection is done by Dr. Imke Fries."]
)
def test_no_part_of_an_excerpt_ends_within_a_date_or_a_title(text: str) -> None:
    assert text in sentences_excerpt(f"{text} {'And so on and on it went. ' * 9}", chars=70, sought=seen, clauses=True)
