"""Observations: what an agent without tool calls gets back. It writes its call in its text, and the answer to it comes
as a user's message, in a frame that its program puts around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .cline import HEAD, RESULT, without_below
from .notices import has_words
from .patterns import number_in
from .written import ACTION, CALLING, CLOSED, CUT_OFF, FENCE, KEYS, LOOKED_AT_CHARS, OBJECT

FENCE_CHARS = 40
"""A text that ends with a program has a fence so near its end."""

_ELEMENTS = "tool_response|tool_result|tool_output"
_STATE = r"\((?:Open file|Current directory|Interactive session): [^\n]*\)\n"

_FUNCTION_RESULT = re.compile(
    r"\s*(?:EXECUTION RESULT of \[\w+\]:|OBSERVATION:"  # OpenHands, SWE-agent
    r"|(?:\[STEP \d+\]\n)?(?:Exit code: (?P<exit>-?\d+)\n)?Execution output of \[\w+\]:)[ \t]*\n"  # R2E-Gym
)
"""How the answer to `<function=` begins."""

_ELEMENT_RESULT = re.compile(rf"\s*{RESULT}\n?")
"""How Cline and Roo Code begin the answer to a call that is an element."""

_NEXT_ELEMENT_RESULT = re.compile(rf"\n{HEAD}(?=\n|\Z)")
"""The same between the answers to several calls, with the tool's name."""

_RESPONSE = re.compile(rf"\s*<({_ELEMENTS})\b[^>\n]*>\n?")
"""How the answer to `<tool_call>` begins (Hermes, Qwen); it ends as it began."""

_BETWEEN = re.compile(rf"</({_ELEMENTS})>\s*<\1\b[^>\n]*>\n?")
"""Between the answers to several calls."""

_ACTED = re.compile(r"\s*Observation(?: \d+)?:[ \t]*\n?")
"""How the answer to `Action:` with `Action Input:` begins (ReAct)."""

_PRINTED = re.compile(
    r"\s*(?:(?:(?:Call id: \S+\n|\[OUTPUT OF STEP \d+\] -> )?Observation|OBSERVATION):[ \t]*\n"  # smolagents, SWE-agent
    r"|The output of the OS(?: is empty\.\s*\Z|:\s*\n)"  # AgentBench
    r"|The script ran(?: but produced no output to console\.[^\n]*"  # Magentic-One
    r"|, then exited with an error \(POSIX exit code: (?P<posix>-?\d+)\)\s{1,4}Its output was:[ \t]*\n)"
    r"|exitcode: (?P<code>-?\d+) \(execution \w+\)[ \t]*\n"  # AutoGen
    r"|<returncode>(?P<returned>-?\d+)</returncode>(?:\s*<output>)?\n?)"  # mini-swe-agent
)
"""How the answer to a program between fences begins, with which the assistant's text ended."""

_TIMED_OUT, _KILLED = re.compile(r"\s*The last command <command>"), "</command> timed out and has been killed."
"""How mini-swe-agent answers a program that did not end."""

_WHAT_IT_PRINTED = re.compile(r"\A\s*(?:The output of the command was:)?\s*(?:<output>\n?)?")
_HINT = re.compile(r"\nPlease try another command and make sure to avoid those requiring interactive input\.\s*\Z")
"""What it says before and behind what such a program printed."""

BEHIND_CHARS_MAX = 90
"""Of the same line, behind the beginning of the last."""

_BOTH_ENDS = (
    (
        re.compile(r"\s*(?:Call id: \S+\n|\[OUTPUT OF STEP \d+\] -> )?(?=Error:\n)"),  # smolagents
        "Now let's retry: take care not to repeat previous errors!",
    ),
    (re.compile(r"\s*Code output: "), "What does this output mean / what's next (if anything"),  # Open Interpreter
    (re.compile(r"\s*Output:\s{1,4}```\w{0,20}\n"), FENCE),  # AppWorld
)
"""How answers to such programs begin, and what stands behind their last line."""

_UNREAD = re.compile(
    r"\s*(?:Please always provide EXACTLY ONE action in triple backticks, found \d+ actions?\."  # mini-swe-agent
    r"|Your output was not formatted correctly\. You must always include one discussion and one command"  # SWE-agent
    r"|(?:Tool call|Format) error:\s{1,4}<error>"
    r"|Your bash command contained syntax errors and was NOT executed\b"  # SWE-agent
    r"|Operation '[^'\n]{1,200}' is not supported by this environment\.?\s*\Z"
    r"|Previous response had parsing errors:\nERROR: "  # Terminus
    r"|\[ERROR\] You did not use a tool in your previous response! Please retry with a tool use)"  # Cline, Roo Code
)
"""How a program answers who wrote no call that it could read, or several."""

_NOT_DONE = re.compile(r"\n\[Error occurred in processing last action\]\s*\Z")
"""How OpenHands ends what it says of an action that it could not do."""

_REMINDER = "\n\n# Reminder: "
"""Behind that Cline and Roo Code say again what their instructions say."""

NOT_RUN = "error: not run. "
"""Begins what is told of that."""

_SCREEN = re.compile(
    r"\s*(?:Previous response had (?:warnings|parsing errors):\n(?:[^\n]{1,160}\n){1,6}\n{0,3})?"
    r"(?:Current terminal state:\s*)?(?:New Terminal Output|Current Terminal Screen):[ \t]*(?:\n|\Z)"
)
_FINISHED = re.compile(
    r"(?:\r?\n\[(?:Current working directory|(?:Jupyter )?(?:current working directory|Python [Ii]nterpreter)|"
    r"The command completed with exit code|Command (?:-?\d+ )?finished with exit code)[^\n]*\])+"
    r"(?:\r?\n[^\s@]{1,60}@[^\s:]{1,60}:[^\n]{1,200} [$#])?\s*\Z"
)
_EXIT_CODE = re.compile(r"exit code (-?\d+)")
"""How OpenHands ends what a command printed."""

_PROMPT = re.compile(rf"(?:\A|\n)(?:{_STATE})+bash-[\d.]*\$\s*\Z")
"""How SWE-agent's shell ends the answer to such a program."""

_CLOSES = re.compile(rf"\s*</(?:output|{_ELEMENTS})>\s*\Z")

_PROGRAM_CLOSED = re.compile(r"</(?:code|execute_(?:bash|ipython|browse))>\Z")
"""How a text with one ends (smolagents, CodeAct)."""


def is_observation(text: str, before: str) -> bool:
    """Tell whether *text* stands in a program's frame and answers a call in the text *before*, so that nobody says it.

    Each frame answers one form of call, but for what a program says of a text in which it found none. Nothing is parsed
    for that: a state is told from it, and must come out alike wherever it is told.
    """
    begin, end = text[:LOOKED_AT_CHARS], text[-LOOKED_AT_CHARS:]
    asked = CUT_OFF.sub("", before.rstrip()[-2 * LOOKED_AT_CHARS :]).rstrip()[-LOOKED_AT_CHARS:]
    ran = FENCE in asked[-FENCE_CHARS:] or _PROGRAM_CLOSED.search(asked) or (asked[-1:] == "]" and CALLING in before)
    if ran and (_PRINTED.match(begin) or _between_ends(text) is not None or _PROMPT.search(end) or _is_killed(text)):
        return True
    if _UNREAD.match(begin) or (_NOT_DONE.search(end) and (ran or "<function=" in before)):
        return not has_words(text)
    if _SCREEN.match(begin):
        return KEYS in before
    if (found := _RESPONSE.match(begin)) is not None:
        return end.rstrip().endswith(f"</{found.group(1)}>") and bool(OBJECT.search(before))
    if _ELEMENT_RESULT.match(begin):
        return bool(CLOSED.search(asked)) and not has_words(text)
    if _FUNCTION_RESULT.match(begin):
        return "<function=" in before
    return bool(_ACTED.match(begin) and ACTION.search(before))


def _between_ends(text: str) -> str | None:
    """Return the words of *text* between the two ends of a frame; None where it has none."""
    begin, end = text[:LOOKED_AT_CHARS], text[-LOOKED_AT_CHARS:]
    for opens, closes in _BOTH_ENDS:
        if (found := opens.match(begin)) is not None and (at := end.rfind(closes)) >= 0:
            last = len(text) - len(end) + at
            behind = text[last + len(closes) :].strip()
            # a person may go on
            if found.end() <= last and len(behind) <= BEHIND_CHARS_MAX * (closes != FENCE) and "\n" not in behind:
                return text[found.end() : last].rstrip()
    return None


def _is_killed(text: str) -> bool:
    return bool(_TIMED_OUT.match(text)) and _KILLED in text


def answers_in(text: str, tools: Sequence[str] = ()) -> list[str]:
    """Return the answers in an observation, without its frame: one, or one to each of several calls of *tools*.

    What a program that failed gave back begins with its exit code.
    """
    begin = text[:LOOKED_AT_CHARS]
    if _is_killed(text):
        printed = text[text.index(_KILLED) + len(_KILLED) :]
        printed = _HINT.sub("", _WHAT_IT_PRINTED.sub("", printed, count=1))
        return [f"error: timed out and was killed\n{_without_close(printed)}".rstrip()]
    if (inner := _between_ends(text)) is not None:
        return [inner]
    if (found := _NOT_DONE.search(text, max(0, len(text) - LOOKED_AT_CHARS))) is not None:
        return [f"error: {text[: found.start()].strip()}"]
    if _UNREAD.match(begin):
        return [NOT_RUN + text.strip().removeprefix("[ERROR] ").partition(_REMINDER)[0]]
    frames = (_PRINTED, _RESPONSE, _ELEMENT_RESULT, _FUNCTION_RESULT, _ACTED, _SCREEN)
    found = next(filter(None, (one.match(begin) for one in frames)), None)
    if found is None:
        return [text]
    bare = _without_close(text[found.end() :])
    told = found.groupdict()
    code = next(filter(None, map(told.get, ("code", "returned", "exit", "posix"))), "0")
    if found.re in (_FUNCTION_RESULT, _PRINTED) and (
        ended := _FINISHED.search(bare, max(0, len(bare) - LOOKED_AT_CHARS))
    ):
        bare, codes = bare[: ended.start()], _EXIT_CODE.findall(ended.group())
        code = codes[-1] if codes else code
    if found.re is _ELEMENT_RESULT:
        return _each_element(without_below(bare), tools)
    # every second piece is the name of an element
    pieces = _BETWEEN.split(bare)[::2]
    return [f"exit code: {code}\n{pieces[0]}" if number_in(code) else pieces[0], *pieces[1:]]


def _each_element(text: str, tools: Sequence[str]) -> list[str]:
    """Return the answers to calls of *tools* that follow one another in *text*; what was printed may look like one."""
    ends = [one for one in _NEXT_ELEMENT_RESULT.finditer(text) if one.group(1) in tools]
    if len(ends) + 1 != len(tools):
        return [text]
    starts = [0, *(one.end() for one in ends)]
    return [text[start:end] for start, end in zip(starts, [*(one.start() for one in ends), len(text)], strict=True)]


def _without_close(text: str) -> str:
    close = _CLOSES.search(text[-LOOKED_AT_CHARS:])
    return text[: len(text) - len(close.group())] if close else text
