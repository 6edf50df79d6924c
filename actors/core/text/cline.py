"""Cline: the words of a person in what Cline and Roo Code put around and below them: tools' results, lists, states.

Source: their prompts (`responses.ts`, `focus-chain/prompts.ts`) and recorded tasks.
"""

from __future__ import annotations

import re

from .kinds import parsed_json
from .notices import is_programs

BELOW_CHARS = 8000
"""Of a text's end, where a list stands."""

HEAD = r"\[([a-z]\w*)(?: (?:for|to|in) [^\n]{1,600}?)?\] Result:[ \t]*"
"""Whose result follows."""

RESULT = rf"{HEAD.replace('(', '(?:', 1)}(?:Done[ \t]*)?(?=\n|\Z)"
"""How a result begins."""

_LIST = (
    r"[ \t]*# (?:task_progress RECOMMENDED|TODO LIST RECOMMENDED|(?:task_progress|Todo) List \(Optional - Plan Mode\)"
    r"|TODO LIST UPDATE REQUIRED - You MUST [^\n]*|(?:task_progress|TODO LIST) CREATION REQUIRED[^\n]*)\n"
    r"(?:[ \t]*(?:(?:[-*] |\d+\. |\*\*|```|When starting a new task|While in PLAN MODE|Reminder on how to use"
    r"|Keeping the|Note: This list|ASSUMPTION: |You've made \d+ API requests)[^\n]*)?\n)*"
)
"""How an assistant is told to keep its list, with the list: every line begins in a way that is known."""

_LIST_BELOW = re.compile(rf"(?:\A|\n){_LIST}\Z")
_SHOWS = ("attempt_completion", "ask_followup_question", "plan_mode_respond")
"""Tools that do nothing but show a person something."""

_KNOWN = re.compile(
    rf"{RESULT}\s*|\[(?:{'|'.join(_SHOWS)}) for '(?s:(?!'\] Result:).){{1,4000}}'\] Result:\s*|{_LIST}\s*|\[Image\]\s*"
    r"|Files attached by the user:\s*"
    r"|\[TASK RESUMPTION\] This task was interrupted [^\n]*(?:\n+(?:Note: If you previously attempted|IMPORTANT: If the"
    r" last tool use) [^\n]*)*\s*"
    r"|(?:The user has provided feedback on the results\. Consider their input to continue the task, and then attempt "
    r"completion again\.|The user denied this operation and provided the following feedback:"
    r"|The user provided the following feedback:|New instructions for task continuation:"
    r"|New message to respond to with plan_mode_respond tool[^\n]*:"
    r"|You seem to be having trouble proceeding\. The user has provided the following feedback to help guide you:)\s*"
)
"""What stands around a person's words."""

_DENIED = "The user denied this operation"
REFUSED = "[refused the call before it:] "
"""Stands before words with which a person refused a call."""

_WORDS = re.compile(r"<(feedback|user_message|answer|task)>")
_RESULT_OF = re.compile(r"(?s)\[([a-z]\w*).*\] Result:")
_NO_HEAD = re.compile(r"[ \t]*#|\[Image\]")
_MENTIONED = re.compile(
    r"<(file_content|folder_content|url_content|git_commit|terminal_output|workspace_diagnostics)\b[^>\n]{0,600}>"
)
"""What stands below the words that name it: the content of a file or a page."""

_SAID_BELOW = "\nNew instructions for task continuation:\n<user_message>\n"
_FILES = frozenset(("read_file", "write_to_file", "apply_diff", "insert_content", "search_and_replace"))
"""Tools whose results are files in elements; a command may print anything."""

_RESULT_ENDS = ("</files>", "</file>", "</file_write_result>")
"""Of what a tool returned: a person speaks below it, and not the file that it shows."""

_BLANKS = re.compile(r"\s*")
_STATE = re.compile(r"<(environment_details)>")


def passed_on(text: str, *, refusals: bool = False) -> str | None:
    """Return the words of a person in a message of nothing but them and what is known to stand around; else None.

    With *refusals* a mark says which of them refuse the call before them.
    """
    whole, at = f"{text.strip()}\n", 0
    told: list[str] = []
    mentioned: list[str] = []
    is_persons, mark, tool = True, "", ""
    while at < len(whole):
        if found := _KNOWN.match(whole, at):
            at = found.end()
            mark = REFUSED if refusals and _DENIED in found.group() else mark
            # what a tool returned may have such elements; Cline says so where a person speaks there
            result = _RESULT_OF.match(found.group())
            tool = result.group(1) if result else tool
            is_persons = result.group(1) in _SHOWS if result else is_persons or not _NO_HEAD.match(found.group())
        elif (element := _MENTIONED.match(whole, at)) and (end := whole.find(f"</{element[1]}>", element.end())) > 0:
            end += len(element[1]) + 3
            mentioned.append(whole[at:end])
            at = _behind(whole, end)
        elif (element := _WORDS.match(whole, at) or _STATE.match(whole, at)) and (end := _end_of(element, whole)) > 0:
            inner = whole[element.end() : end].strip()
            # a file that is shown may have such elements, too
            if element.re is _WORDS and (mentioned or not is_persons):
                return None
            if element.re is _WORDS:
                told.append(f"{mark}{inner}")
                mark = ""
            elif not is_programs(element.group(1), inner):
                return None
            at = _behind(whole, end + len(element.group()) + 1)
        elif not told and tool in _FILES and (below := _said_below(whole, at)) >= 0:
            at, is_persons = below + 1, True
        else:
            return None
    return "\n".join([*filter(None, told), *mentioned]) if told else None


def _said_below(text: str, at: int) -> int:
    """Return where a person speaks below a file that is shown from *at* on; -1 where more than that stands there."""
    below = text.rfind(_SAID_BELOW, at)
    is_file = below >= 0 and text[at:below].rstrip().endswith(_RESULT_ENDS)
    return below if is_file and _WORDS.search(text, at, below) is None else -1


def without_below(text: str) -> str:
    """Return *text* without the list and the state that stand below it."""
    state = text.rfind("\n<environment_details>\n#")
    bare = text[:state] if state >= 0 and text.rstrip().endswith("</environment_details>") else text
    end = f"{bare[-BELOW_CHARS:].rstrip()}\n"
    found = _LIST_BELOW.search(end)
    return f"{bare[:-BELOW_CHARS]}{end[: found.start()]}".rstrip() if found else bare.rstrip()


def as_speech(text: str) -> str:
    """Return the words of an assistant without the elements of a last call that only shows something to a person."""
    tool = next((name for name in _SHOWS if text.rstrip().endswith(f"</{name}>")), "")
    start = text.rfind(f"<{tool}>") if tool else -1
    if start < 0:
        return text
    inner = text[start:]
    told = [_inside(inner, name) for name in ("result", "response", "question")]
    options = parsed_json(_inside(inner, "options"))
    told += [f"- {one}" for one in options if isinstance(one, str)] if isinstance(options, list) else []
    shown = "\n".join(filter(None, told))
    return f"{text[:start]}{shown}".strip() if shown else text


def _inside(text: str, name: str) -> str:
    start, end = text.find(f"<{name}>"), text.rfind(f"</{name}>")
    return text[start + len(name) + 2 : end].strip() if 0 <= start < end else ""


def _end_of(element: re.Match[str], text: str) -> int:
    """Return where *element* ends, -1 where it does not: behind that, something known stands, or nothing."""
    close = f"</{element.group(1)}>"
    end = text.find(close, element.end())
    while end >= 0:
        behind = _behind(text, end + len(close))
        if behind == len(text) or any(one.match(text, behind) for one in (_KNOWN, _WORDS, _STATE, _MENTIONED)):
            return end
        end = text.find(close, end + 1)
    return -1


def _behind(text: str, at: int) -> int:
    """Return where something stands in *text* from *at* on."""
    found = _BLANKS.match(text, at)
    return found.end() if found else at
