"""Forms: pages that were read out cell by cell."""

from __future__ import annotations

import pytest

from actors.core.text.forms import with_labels

FORM = """=== Page 1 ===
Claim of travel expenses

Claim ID:
EXP-17
Name:
Anna Weiß
総額:
CNY7829.59
Remarks: none
No.
Date
Amount (CNY)
1
2024-09-15
2760.00
Signed by:
Date:
"""

ROWS = """=== Page 1 ===
Claim of travel expenses

Claim ID: EXP-17
Name: Anna Weiß
総額: CNY7829.59
Remarks: none
No. | Date | Amount (CNY) | 1 | 2024-09-15 | 2760.00 | Signed by: | Date:
"""


def test_a_value_stands_behind_its_label_and_other_cells_in_rows() -> None:
    assert with_labels(FORM) == ROWS
    assert with_labels(ROWS) == ROWS


def test_a_row_has_so_many_characters_and_no_cell_is_parted() -> None:
    cells = [f"cell {at} of the table" for at in range(20)]
    told = with_labels(FORM + "\n" + "\n".join(cells))
    assert max(map(len, told.split("\n"))) <= 120
    assert [cell for line in told.split("\n") for cell in line.split(" | ")][-20:] == cells


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Name:\nAnna\nDate:\n2024-09-15\n",
        "if a:\n    b\nelif c:\n    d\nelse:\n    e\ntry:\n    f\n",
        "name:\n- a\nsteps:\n- b\non:\n- c\n",
        "a:\n  b: 1\nc:\n  d: 2\ne:\n  f: 3\n",
        'def f(a):\nx = 1\ndef g(a):\ny = 2\nclass A:\nz = "{3}"\n',
        "17:\n18:class A\n19:\n20:class B\n21:\n22:class C\n",
        "docs:\na.md\nsrc:\nb.py\ntests:\nc.py\n",
        "def main():\nreturn\nelse:\nreturn\ntry:\npass\n",
        "First:\nSecond:\nThird:\nFourth:\n",
        "\n".join(f"Point {at}:\nThis is a whole sentence about what was found here and there." for at in range(9)),
    ],
)
def test_what_is_no_form_stays_as_it_is(text: str) -> None:
    assert with_labels(text) == text
