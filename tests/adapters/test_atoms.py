"""Atoms: whatever a framework keeps in a message comes back, and a shortened text is shortened in its object."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocol.adapters.atoms import CARRIED_BYTES_MAX, Telling, carrying, chained, json_only, parted, restored
from protocol.formats import messages
from tests.laws import LAWS

WORDS = st.text(max_size=30)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3)
BLOCK = st.fixed_dictionaries(
    {"kind": st.sampled_from(("text", "thought", "picture", "value")), "x": WORDS, "y": PLAIN}
)
OBJECT = st.fixed_dictionaries(
    {"blocks": st.lists(BLOCK, max_size=4), "calls": st.lists(ARGUMENTS, max_size=3), "rest": PLAIN}
)


def telling(own: dict[str, Any]) -> Telling:
    """Tell an object of a framework that nobody has."""
    told = Telling(role="assistant", own=own)
    for place, block in enumerate(own["blocks"]):
        at = f"/blocks/{place}"
        if block["kind"] == "text":
            told.text(f"{at}/x")
        elif block["kind"] == "thought":
            told.reasoning(f"{at}/x")
        elif block["kind"] == "picture":
            told.image(f"{at}/x", mime="image/png")
        else:
            told.value(f"{at}/y")
    for place in range(len(own["calls"])):
        told.call(f"id-{place}", "run", arguments=[f"/calls/{place}"])
    return told


@LAWS
@given(OBJECT)
def test_an_object_comes_back_from_the_bytes_of_its_message(own: dict[str, Any]) -> None:
    before = copy.deepcopy(own)
    raw = messages.encode(carrying(telling(own).atom(), n=3, chain="c"))
    chat, carried = parted(messages.decode(raw))
    assert carried is not None
    assert (carried.n, carried.chain) == (3, "c")
    assert restored(chat, carried) == before
    assert own == before, "the framework's own object was changed"


@LAWS
@given(OBJECT, WORDS.filter(bool))
def test_what_a_view_says_in_place_of_a_text_is_what_the_object_says(own: dict[str, Any], shorter: str) -> None:
    said = carrying(telling(own).atom(), n=1, chain="c")
    texts = [part for part in messages.parse(said).parts if part.kind == "text"]
    view = messages.with_leaves(said, {part.pointer: f"[{shorter}" for part in texts})
    chat, carried = parted(view)
    assert carried is not None
    back = restored(chat, carried)
    shown = [block["x"] for block in back["blocks"] if block["kind"] == "text"]
    assert shown == [f"[{shorter}"] * len(shown)
    assert back["rest"] == own["rest"]


def test_an_image_that_became_a_pointer_has_no_place_in_the_object() -> None:
    own = {"blocks": [{"kind": "picture", "x": "AAAA", "y": 0}, {"kind": "text", "x": "see", "y": 0}], "calls": []}
    said = carrying(telling(own).atom(), n=1, chain="c")
    chat, carried = parted(messages.replaced(said, {"/content/0/image_url/url": "[Image moved out]"}))
    assert carried is not None
    assert restored(chat, carried) is None


def test_a_text_is_said_once_and_not_carried_beside_itself() -> None:
    own = {"blocks": [{"kind": "text", "x": "long " * 10_000, "y": 0}], "calls": [{"a": "long " * 10_000}]}
    assert messages.encode(carrying(telling(own).atom(), n=1, chain="c")).count(b"long") == 20_000


def test_what_is_too_large_to_carry_is_left_to_the_process_that_has_it() -> None:
    own = {"blocks": [], "calls": [], "rest": "x" * CARRIED_BYTES_MAX}
    chat, carried = parted(carrying(telling(own).atom(), n=7, chain="c"))
    assert carried is not None
    assert (carried.n, carried.chain, restored(chat, carried)) == (7, "c", None)


def test_a_list_is_told_by_what_was_said_and_not_by_ids() -> None:
    one = Telling(role="user", own={"id": 1, "x": "hello"})
    other = Telling(role="user", own={"id": 2, "x": "hello"})
    one.text("/x")
    other.text("/x")
    assert chained("", one.atom()) == chained("", other.atom())
    assert chained("a", one.atom()) != chained("b", one.atom())


def test_what_json_cannot_hold_stays_behind() -> None:
    assert json_only({"a": object(), "b": float("nan"), "c": [object(), 1], "d": ("x",)}) == {
        "c": [None, 1],
        "d": ["x"],
    }
