"""Audit output: what the commands that explain write for a person. Text of conversations goes through `plain`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.audit.call_views import FACT
from actors.audit.diff import grouped, text_diff
from actors.audit.sums import FateSum, StageSum, Stats, Sums
from actors.audit.where import in_short
from actors.services.serving import ranges
from protocol.history import Change, Diff, Event, Loss, Place, Row, Span, Tally, Version, Where, Why

from .asked_about import way_back
from .plot import course_text
from .terminal_text import counted, one_line, plain

LINES_SHOWN = 12
"""Of one message's change, unless all are asked for."""

SPANS_SHOWN, RANGES_SHOWN = 40, 12
PLACES_SHOWN = 20
BAR_CHARS = 24

_COLOURS = {"new": "green", "restored": "green", "kept": "dim", "cut": "red", "failed": "red"}


def version_text(row: Version) -> str:
    """Return a version as one line, and one more for its loss."""
    facts = ", ".join(name if times == 1 else f"{name} x{times}" for name, times in row.facts.items())
    change = f"{row.before_tokens:,} -> {row.after_tokens:,}" if row.outcome == "applied" else f"{row.after_tokens:,}"
    if row.served_tokens:
        change = f"{row.served_tokens:,}"
    told = f": {'; '.join(row.reasons)}" if row.reasons else ""
    line = (
        f"v{row.version:<5} {row.time[:19]:<19} {row.stage or '-':<7} {row.outcome:<8} {change:>16} tokens"
        f" {row.messages:>5} messages  {facts}{one_line(told, chars=160)}\n"
    )
    return line + (f"       {loss_text(row.loss)}\n" if row.loss is not None else "")


def loss_text(loss: Loss) -> str:
    """Return the fates of the values, steps and sentences that a step touched, in one line."""
    lost = ", ".join(f"{one.lost} {name}" for name, one in loss.categories.items() if one.lost)
    counted = _tally_text(loss.total) if loss.categories else "none in what it changed"
    told = [f"values: {counted}" + (f" ({lost})" if lost else "")]
    told += [f"steps: {_tally_text(loss.steps)}"] if loss.steps else []
    told += [f"sentences: {_tally_text(loss.sentences)}"] if loss.sentences else []
    return "; ".join(told)


def _tally_text(tally: Tally) -> str:
    return f"{tally.retained} retained, {tally.recoverable} recoverable, {tally.lost} lost"


def print_diff(found: Diff, *, full: bool) -> None:
    """Print a diff, in colours where there is a terminal."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{found.address}: version {found.older} -> {found.newer}", style="bold")
    console.print(f"tokens {found.tokens.before:,} -> {found.tokens.after:,} ({_signed(found.tokens)})")
    for name, change in found.categories.items():
        if change.before != change.after:
            console.print(f"  {name:<13} {change.before:>8,} -> {change.after:>8,}  {_signed(change):>9}")
    for stage, tokens in found.stages.items():
        console.print(f"  by {stage:<10} {tokens:>+9,}")
    for did, rows in grouped(found.rows):
        style = _COLOURS.get(did, "yellow")
        before, after = sum(row.before_tokens for row in rows), sum(row.after_tokens for row in rows)
        size = f"{before:,} tokens" if before == after else f"{before:,} -> {after:,} tokens"
        console.print(f"{did:<11} {_named(rows):<28} {size}{diff_cause(rows)}", style=style)
        if len(rows) == 1 and rows[0].before and rows[0].after:
            _print_change(console, rows[0], full=full)


def why_text(found: Why, *, full: bool) -> str:
    """Return the history of a message as text."""
    name = f"message {found.number} ({found.role})" if found.number else "the digest"
    lines = [f"{found.address}@{found.version} {name}: {found.now}"]
    if found.number:
        lines.append(f"  said {found.said_time} at {found.said_seq}, trace {found.said_trace_id or '-'}")
        lines.append(f"  {one_line(found.text, chars=100) or '(it has no text)'}")
    if not found.history:
        lines.append("  nothing was done to it")
    for event in found.history:
        lines += _event_lines(event)
    lines += [f"  read {way}" for way in found.read]
    if full:
        lines.append(plain(found.text))
    return "\n".join(lines) + "\n"


def _place(place: Place, lost: Iterable[str]) -> str:
    where = f"artifact {place.key[:16]}" if place.key else "the log"
    since = f" since v{place.since}" if place.since else ""
    kept = "was kept" if place.key in lost else "kept"
    gone = ", which the store LOST" if place.key in lost else ""
    return f"  {kept} in {where}{gone}: message {place.message} {place.part}{since}"


def where_text(found: Where) -> str:
    """Return the places of a text, as text."""
    lines = [f"{one_line(found.text, chars=60)!r} in {found.address}: {found.now}"]
    spans = in_short(found)
    for span in spans[-SPANS_SHOWN:]:
        lines.append(f"  {_range('v', span.first, span.last):<14} {span.kept}{_stands(span)}")
    if len(spans) > SPANS_SHOWN:
        lines.insert(1, f"  … {len(spans) - SPANS_SHOWN} earlier changes; all with --json")
    if calls := found.cut_when_served:
        served = counted(len(calls), "call")
        lines.append(f"  {served} served without it, cut for that call alone: {_few(calls, 'v')}")
    lines += [_place(place, found.lost) for place in found.places[:PLACES_SHOWN]]
    if len(found.places) > PLACES_SHOWN:
        lines.append(f"  … {len(found.places) - PLACES_SHOWN} more places; all with --json")
    lines += [f"  not looked into: the upload {key[:16]} is gone" for key in found.unsearched]
    if found.lost or found.unsearched:
        lines.append(f"  {way_back(found.address)}")
    return "\n".join(lines) + "\n"


def _stands(span: Span) -> str:
    """Return where a text stood, at the end of *span*; empty where it stood nowhere."""
    numbers = [number for number in span.messages if number]
    told = ["the digest"] if len(numbers) < len(span.messages) else []
    if numbers:
        told.append(f"message {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} messages: {_few(numbers)}")
    at_end = f"; at v{span.last}" if told and span.first != span.last else ""
    return f"{at_end} in {' and '.join(told)}" if told else ""


def _few(numbers: Iterable[int], sign: str = "") -> str:
    """Return *numbers*, in order, as ranges; the newest few of them."""
    told = [f"{sign}{one}" for one in ranges(numbers).split(",")]
    return f"{'… ' if len(told) > RANGES_SHOWN else ''}{', '.join(told[-RANGES_SHOWN:])}"


def print_stats(found: Stats) -> None:
    """Print statistics as tables."""
    # not on a terminal, nothing is broken over lines
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
    total = found.total
    console.print(
        f"{total.conversations:,} conversations, {total.messages:,} messages, {total.versions:,} versions, "
        f"{total.calls:,} served contexts ({total.overflows_avoided:,} would not have fitted)"
    )
    reported = ""
    if total.reported_input_tokens:
        share = _share(total.reported_cached_tokens, total.reported_input_tokens)
        reported = f"; providers reported {share} of {total.reported_input_tokens:,} input tokens cached"
    console.print(
        f"prompt cache: {_share(total.same_prefix_tokens, total.served_tokens)} of the served tokens stood "
        f"unchanged at the beginning of the call before{reported}"
    )
    sys.stdout.write(course_text(found.course))
    console.print(_stage_table(found.stages))
    if found.values:
        console.print(_values_table(found.values))
    console.print(_sums_table("tenant", found.tenants))
    console.print(_sums_table("model", found.models))
    if total.unpriced_calls:
        console.print(f"{total.unpriced_calls:,} calls have no known price; give --price-as MODEL")
    if found.repairs:
        told = ", ".join(f"{kind} {times:,}" for kind, times in found.repairs.items())
        console.print(f"repaired or refused: {told}; `jettison versions CONV` says where")
    if found.reasons:
        console.print("declined or failed, most often first", style="bold")
    for one in found.reasons:
        console.print(f"  {one.times:>6}  {one.stage:<8} {one.outcome:<9} {one_line(one.reason, chars=120)}")
    if found.slowest:
        console.print("slowest steps, from what they had to act upon to their commit", style="bold")
    for step in found.slowest:
        console.print(f"  {step.seconds:>8.3f} s  {step.stage:<8} {step.address}@{step.version}  {step.time[:23]}")


def _stage_table(stages: Mapping[str, StageSum]) -> Table:
    heads = ("stage", "applied", "declined", "failed", "removed", "saved over calls", "$ saved", "$ LLM")
    table = Table(*heads, "s median", "s max", "", box=None)
    most = max((one.saved_tokens for one in stages.values()), default=0)
    for name, one in stages.items():
        chars = max(0, one.saved_tokens) * BAR_CHARS // most if most > 0 else 0
        table.add_row(
            name,
            f"{one.applied:,}",
            f"{one.declined:,}",
            f"{one.failed:,}",
            f"{one.removed_tokens:,}",
            f"{one.saved_tokens:,}",
            f"{one.saved_dollars:,.2f}",
            f"{one.llm_dollars:,.4f}",
            f"{one.seconds_median:.3f}",
            f"{one.seconds_max:.3f}",
            "█" * chars,
        )
    return table


def _values_table(values: Mapping[str, FateSum]) -> Table:
    """Return the table of what compactions took out of views: steps, sentences and values."""
    table = Table("what left", "retained", "recoverable", "lost", box=None)
    for name, one in values.items():
        table.add_row(name, f"{one.retained:,}", f"{one.recoverable:,}", f"{one.lost:,}")
    return table


def _sums_table(what: str, groups: Mapping[str, Sums]) -> Table:
    heads = (what, "conversations", "calls", "tokens said", "tokens served", "saved", "same prefix")
    table = Table(*heads, "$ saved", "$ saved, cached", "$ LLM", box=None)
    for name, one in sorted(groups.items(), key=lambda item: -item[1].saved_tokens):
        table.add_row(
            one_line(name, chars=40),
            f"{one.conversations:,}",
            f"{one.calls:,}",
            f"{one.said_tokens:,}",
            f"{one.served_tokens:,}",
            _share(one.saved_tokens, one.said_tokens),
            _share(one.same_prefix_tokens, one.served_tokens),
            f"{one.saved_dollars:,.2f}",
            f"{one.saved_dollars_cached:,.2f}",
            f"{one.llm_dollars:,.4f}",
        )
    return table


def _event_lines(event: Event) -> Iterator[str]:
    tokens = f"{event.before_tokens:,} -> {event.after_tokens:,} tokens"
    yield f"  v{event.version} {event.time[:23]} {event.stage or '-'}: {event.did}, {tokens}"
    if event.rule:
        yield f"     because {one_line(event.rule, chars=300)}"
    if event.policy:
        yield "     policy " + ", ".join(f"{key} = {value}" for key, value in event.policy.items())
    if event.loss is not None:
        yield f"     {loss_text(event.loss)}"
    yield f"     commit {event.hash[:16]}, policy {event.policy_hash}, trace {event.trace_id or '-'}"
    if event.llm is not None:
        llm = event.llm
        cost = f"${llm.dollars:.6f}" if llm.dollars is not None else "price not known"
        yield (
            f"     by {one_line(llm.model, chars=60)}, prompt {llm.prompt_hash}, {llm.input_tokens:,} tokens in, "
            f"{llm.output_tokens:,} out, {llm.attempts} attempts, {cost}"
        )


def _named(rows: list[Row]) -> str:
    if len(rows) == 1:
        return f"message {rows[0].number} ({rows[0].role})" if rows[0].number else "the digest"
    return f"messages {rows[0].number}-{rows[-1].number} ({len(rows)})"


def diff_cause(rows: list[Row]) -> str:
    """Return the names of the versions that did it to *rows*; of what one call alone was not shown, that call's."""
    versions = sorted({row.version for row in rows if row.version})
    if not versions:
        return ""
    named = _range("v", versions[0], versions[-1])
    if rows[0].fact != FACT:
        return f"  in {named}"
    return f"  cut for the call of {named} alone" if rows[0].did == "restored" else f"  for the call of {named} alone"


def _print_change(console: Console, row: Row, *, full: bool) -> None:
    lines = text_diff(row.before, row.after)
    for line in lines if full else lines[:LINES_SHOWN]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        text = plain(line) if full else one_line(line, chars=160)
        console.print(Text(f"    {text}", style=style))
    if len(lines) > LINES_SHOWN and not full:
        console.print(f"    … {len(lines) - LINES_SHOWN} more lines; all with --full", style="dim")


def _range(sign: str, first: int, last: int) -> str:
    return f"{sign}{first}" if first == last else f"{sign}{first}-{last}"


def _signed(change: Change) -> str:
    return f"{change.after - change.before:+,}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
