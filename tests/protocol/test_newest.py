"""What is kept of the newest, and no more."""

from protocol.newest import Newest


def test_what_was_put_in_first_is_forgotten_first_and_what_is_put_in_again_is_the_newest() -> None:
    kept: Newest[str, int] = Newest(2)
    for number, key in enumerate("abac"):
        kept[key] = number
    assert list(kept.items()) == [("a", 2), ("c", 3)]
