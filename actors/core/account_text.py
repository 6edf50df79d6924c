"""The account as text: forms 2 and 3 of a digest. A released form is never changed; a better one is a new number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby

import msgspec

from actors.core.request_marks import stands_elsewhere
from actors.core.text.gaps import GAP
from actors.core.text.json_lines import head_of, names_columns
from protocol.account import Account, AccountAct, AccountRequest, AccountStep, AccountValue

FORM, FORM_BEFORE = 3, 2
"""Form 3 says what a call without an answer means, and tells the values of one message on one line."""

JOINT = " · "
"""Between values of one message; where one has it, it is a comma."""

SHARED_CHARS_MIN = 6
"""Fewer characters, with which one text ends and the next begins, are two things."""

COLUMNS_CHARS_MIN = 40

FOLDER_FILES_MIN, FOLDER_CHARS_MIN = 3, 16
"""Of changed files, from which on the folder that all are in is told once."""

CHANGED_STEPS_MIN, NUMBERS_MAX = 8, 6
"""With fewer steps, they say it themselves; of the steps that changed one thing, the newest."""

WRITES = "> "
"""Begins the target of a command that writes files, as in a shell."""

_WHOLE_NAME, _FOLDERS = re.compile(r"(?:/|[A-Za-z]:\\)[^ ]+\Z"), re.compile(r"[^\\/]*[\\/]")

_COMMAND = re.compile(r"[a-z][\w.+-]* .*(?:(?<=\s)-|['\"|>&;$]|\s[./~]|\w/)")
"""A command's name, and behind it a switch, a quote, another command, a folder."""

_FORMS = {
    FORM: ", oldest first. #N: a message's number; #N-M: several messages together, calls that are alike told once "
    "(x3). call -> answer; of a call without -> the answer is left out here, as is what … stands for. + and -: lines "
    "that an edit put in and took out. What the assistant says is its own claim.",
    FORM_BEFORE: ": what was asked and done so far, oldest first. #N is a message's number; behind -> stands what a "
    "tool answered; what the assistant says is its own claim.",
}
"""What the first line says of how to read it."""

PROSE_TITLE = "Summary of older messages, written by a model; all that stands around it is recorded:"

TEXTS_KEPT = 2
"""A compaction measures the text that it wrote, looks into it, and shows it."""

JOINED_LEVEL = 5
"""A step of this level stands for several."""


@lru_cache(maxsize=TEXTS_KEPT)
def account_text(account: Account, *, prose: str, through: int, form: int) -> str:
    """Return the text of the message that stands for the messages up to *through*."""
    assert form in (FORM, FORM_BEFORE), f"digest form {form} is not known to these rules"
    first = min((one.number for one in account.requests), default=through)
    first = 1 if prose else min([first, *(step.first for step in account.steps)])
    parts = [
        f"[Account of messages {first} and on{_FORMS[form]} "
        "What the user asked and ruled stays valid unless withdrawn.]"
    ]
    if account.requests:
        parts.append("The user said:")
        parts += [request_text(one) for one in account.requests]
    if account.requests_left_out:
        parts.append(
            f"[{account.requests_left_out:,} more of the user's messages, up to #{account.left_out_through}, are left "
            f'out here: read_artifact("messages:{first}-{account.left_out_through}") with a pattern.]'
        )
    if prose:
        parts += [PROSE_TITLE, prose]
    if account.steps:
        parts.append("Steps:")
        parts += _without_repeats(account.steps, form)
    changed = changed_text(account.steps, commands_apart=form >= FORM)
    parts += [changed] if changed else []
    if account.values:
        parts.append("Also seen:")
        parts += _seen(account.values, together=form >= FORM)
    # at the end: what stands before it is then the beginning of the next account, as prompt caches want it
    parts.append(
        f'[So far up to #{through}. Any message in full, also one alone: read_artifact("messages:{first}-{through}").]'
    )
    return "\n".join(parts)


def _seen(values: Sequence[AccountValue], *, together: bool) -> Iterator[str]:
    """Yield a line for each of *values*, or for those of one message *together*."""
    if not together:
        yield from (f"#{one.number} {one.text}" for one in values)
        return
    for number, some in groupby(values, key=lambda one: one.number):
        yield f"#{number} {JOINT.join(_merged([one.text.replace(JOINT, ', ') for one in some]))}"


def _merged(texts: Sequence[str]) -> list[str]:
    """Return *texts* with those as one that go on with the words with which the one before ends."""
    out: list[str] = []
    for text in texts:
        words = text.split(" ")
        shared = next((" ".join(words[:n]) for n in range(len(words) - 1, 0, -1) if _goes_on(out, words[:n])), "")
        if shared:
            out[-1] += text[len(shared) :]
        else:
            out.append(text)
    return out


def _goes_on(out: Sequence[str], words: Sequence[str]) -> bool:
    shared = " ".join(words)
    return bool(out) and len(shared) >= SHARED_CHARS_MIN and f" {out[-1]}".endswith(f" {shared}")


def first_request(account: Account) -> int:
    """Return the number of the first message of a user's that *account* tells itself; 0 where it tells none."""
    return next((one.number for one in account.requests if not stands_elsewhere(one.text)), 0)


def without_steps(account: Account, left: Collection[int], values: tuple[AccountValue, ...]) -> Account:
    """Return *account* without the steps that begin at *left*, and with *values* beside the others."""
    steps = tuple(step for step in account.steps if step.first not in left)
    return msgspec.structs.replace(account, steps=steps, values=values)


def request_text(request: AccountRequest) -> str:
    """Return the line of a request, with its number."""
    who = f" {request.speaker}" if request.speaker else ""
    again = f" [again {request.again} times, last in #{request.again_last}]" if request.again > 1 else ""
    again = again or (f" [again in #{request.again_last}]" if request.again else "")
    return f"#{request.number}{who}: {request.text}{again}"


def step_text(step: AccountStep, *, form: int = FORM) -> str:
    """Return one step: its number, what the assistant said, and each call with its outcome."""
    if step.level >= JOINED_LEVEL:
        who = f" {step.speaker}:" if step.speaker else ""
        told = _told_in_lines(step) if form >= FORM else _told_in_a_row(step)
        return f"#{step.first}-{step.last}{who} {told}"
    number = f"#{step.first} {step.speaker}:" if step.speaker else f"#{step.first}"
    if not step.acts:
        return f"{number} {step.said}"
    said = f"{number} {step.said}\n" if step.said else f"{number} "
    return said + "\n".join(_act_text(act.call, act.outcome) for act in step.acts)


def _told_in_lines(step: AccountStep) -> str:
    """Return a line for what was said, and one for each call with its answer; calls in a row without one share one."""
    lines = [step.said] if step.said else []
    before: AccountAct | None = None
    for act in _columns_once(step.acts):
        is_bare = not act.outcome and not act.failed
        if is_bare and before:
            lines[-1] = f"{lines[-1]}; {_head(act, before)}"
        else:
            lines.append(_head(act, None))
        before = act if is_bare else None
    return "\n".join(lines)


def _told_in_a_row(step: AccountStep) -> str:
    heads = [_head(act, after) for act, after in zip(step.acts, (None, *step.acts), strict=False)]
    return "; ".join(filter(None, (step.said, *heads)))


def _columns_once(acts: Sequence[AccountAct]) -> list[AccountAct]:
    """Return *acts* with the names of columns that several answers begin with before the first of them alone."""
    known: set[str] = set()
    out = []
    for act in acts:
        head = head_of(act.outcome)
        out.append(msgspec.structs.replace(act, outcome=act.outcome[len(head) :]) if head in known else act)
        known.update([head] if head else [])
    return out


def _act_text(call: str, outcome: str) -> str:
    if not outcome:
        return call
    joint = "\n" if "\n" in outcome or "\n" in call else " "
    return f"{call} ->{joint}{outcome}"


def _head(act: AccountAct, after: AccountAct | None) -> str:
    """Return a call of several joined ones: what (unless *after*, before it, was that too), about what, its end."""
    times = f" x{act.times}" if act.times > 1 else ""
    name = "" if after and after.call == act.call and act.target else act.call
    end = f" (failed: {act.outcome})" if act.failed and act.outcome else " (failed)" if act.failed else ""
    end = end or (f" -> {act.outcome}" if act.outcome else "")
    return f"{name} {act.target}".strip() + times + end


def changed_text(steps: tuple[AccountStep, ...], *, commands_apart: bool) -> str:
    """Return the lines of what was changed, by name, with the numbers of the steps that did; the newest last.

    With *commands_apart* a command line is no name, and earlier numbers that are left out are marked.
    """
    found: dict[str, list[str]] = {}
    for step in steps:
        for act in step.acts:
            # who writes a file and runs its test in one command, has written it when the test fails
            writes = commands_apart and act.target.startswith(WRITES)
            if not act.changes or (act.failed and not writes) or not act.target:
                continue
            for name in act.target.removeprefix(WRITES).split(", ") if writes else [act.target]:
                numbers = found.pop(name, [])
                found[name] = [*numbers, f"#{step.first}"] if f"#{step.first}" not in numbers else numbers
    if not found or len(steps) < CHANGED_STEPS_MIN:
        return ""
    earlier = f"{GAP} " if commands_apart else ""
    told = {
        name: f"{name} ({earlier if len(numbers) > NUMBERS_MAX else ''}{', '.join(numbers[-NUMBERS_MAX:])})"
        for name, numbers in found.items()
    }
    commands = [told.pop(name) for name in found if commands_apart and _COMMAND.match(name)]
    folder = _folder_of(list(told)) if commands_apart else ""
    inside = {name: short for name in told if folder and (short := _within(name, folder))}
    here = [f"{short}{told.pop(name)[len(name) :]}" for name, short in inside.items()]
    each = ((f"Changed in {folder}", here), ("Changed", list(told.values())), ("Changed by commands", commands))
    return "\n".join(f"{title}: {'; '.join(some)}" for title, some in each if some)


def _folder_of(names: Sequence[str]) -> str:
    """Return the folder without which the files in *names* take the fewest characters; empty where it wins little."""
    whole = (name for name in names if _WHOLE_NAME.match(name))
    inside = Counter(folder for name in whole for folder in accumulate(_FOLDERS.findall(name)))
    wins = [((files - 1) * len(folder), folder) for folder, files in inside.items() if files >= FOLDER_FILES_MIN]
    folder = max(wins, default=(0, ""))[1]
    return folder if len(folder) >= FOLDER_CHARS_MIN else ""


def _within(name: str, folder: str) -> str:
    """Return a file's *name* as seen from *folder*; empty where it is not in it, or nobody can tell."""
    if name.startswith(folder):
        return name[len(folder) :]
    bare = name.removeprefix(GAP)
    ends = (end for end in range(min(len(bare), len(folder)), FOLDER_CHARS_MIN, -1) if folder.endswith(bare[:end]))
    end = next(ends, 0) if bare != name else 0
    return bare[end:] if end else ""


def _ends_as_columns(line: str) -> bool:
    return line.endswith("):")


def columns_in(step: AccountStep, text: str, *, form: int) -> list[str]:
    """Return the names of columns that stand above rows in the *text* of *step*, each once."""
    if "):" not in text:
        return []
    if step.level >= JOINED_LEVEL and form >= FORM:
        return list(dict.fromkeys(filter(None, (head_of(act.outcome).rstrip() for act in step.acts))))
    is_columns = names_columns if form >= FORM else _ends_as_columns
    return [line for line in text.split("\n") if len(line) >= COLUMNS_CHARS_MIN and is_columns(line)]


def with_columns(step: AccountStep, text: str, columns: str, reference: str) -> str:
    """Return the *text* of *step* with a *reference* for the names of *columns*, which stand elsewhere."""
    if step.level >= JOINED_LEVEL:
        return text.replace(columns, reference)
    return "\n".join([reference if line == columns else line for line in text.split("\n")])


def _without_repeats(steps: Sequence[AccountStep], form: int) -> Iterator[str]:
    """Yield the text of each step, with the names of columns that an earlier one has as a reference to it."""
    known: dict[str, int] = {}
    for step in steps:
        text = step_text(step, form=form)
        for columns in columns_in(step, text, form=form):
            if known.setdefault(columns, step.first) != step.first:
                text = with_columns(step, text, columns, f"(columns as in #{known[columns]}):")
        yield text
