"""Subjects: built and read back here, and no name of an agent can ever leave its place."""

from __future__ import annotations

import pytest

from protocol import subjects
from protocol.errors import BadEnvelope
from protocol.ids import address
from protocol.subjects import ACTORS, VERBS

AT = address("c", "t")


def test_every_subject_is_what_the_design_says() -> None:
    assert [
        subjects.said(AT),
        subjects.done(AT),
        subjects.both(AT),
        subjects.wake("spill", AT),
        subjects.wake_filter("cut"),
        subjects.snapshot(AT),
        subjects.ready(AT),
        subjects.ask("read", AT),
        subjects.ask_filter("context"),
        subjects.durable("digest"),
    ] == [
        "ctx.v1.log.t.c.said",
        "ctx.v1.log.t.c.done",
        "ctx.v1.log.t.c.*",
        "ctx.v1.wake.spill.t.c",
        "ctx.v1.wake.cut.*.*",
        "ctx.v1.snap.t.c",
        "ctx.v1.ready.t.c",
        "ctx.v1.ask.read.t.c",
        "ctx.v1.ask.context.*.*",
        "actor-digest",
    ]


@pytest.mark.parametrize("name", ["plain", "a.b", ">", "*", "\ud800", " ", "said", "x" * 10_000, "wake", "e--"])
def test_every_subject_leads_back_to_its_address(name: str) -> None:
    at = address(name, name)
    built = [subjects.said(at), subjects.done(at), subjects.snapshot(at), subjects.ready(at)]
    built += [subjects.wake(actor, at) for actor in ACTORS] + [subjects.ask(verb, at) for verb in VERBS]
    assert [subjects.address_of(subject) for subject in built] == [at] * len(built)
    assert all(len(subject) < 256 and subject.isascii() for subject in built)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        ".",
        "ctx",
        "ctx.v1.log.t.c",
        "ctx.v1.log.t.c.other",
        "ctx.v1.log.t.é.said",
        "ctx.v1.log.t.a/b.said",
        "ctx.v1.snap." + "t" * 65 + ".c",
        "ctx.v1.ready.t.c\n",
        "ctx.v1.log.t.c.said.more",
        "ctx.v2.log.t.c.said",
        "ctx.v1.wake.t.c",
        "ctx.v1.snap.t.c.d",
        "CTX.v1.snap.t.c",
        "$JS.API.STREAM.NAMES",
        "x" * 5000,
    ],
)
def test_a_subject_of_somebody_else_is_refused(subject: str) -> None:
    with pytest.raises(BadEnvelope) as refused:
        subjects.address_of(subject)
    assert refused.value.fields == {"subject": subject[:200]}
