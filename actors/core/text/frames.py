"""Frames: what a program puts around a result that it hands on, where that is no JSON.

Source: Gemini CLI, `tools/shell.ts` and `tools/mcp-tool.ts`; Cline, `responses.ts`; Codex, `unified_exec`.
"""

from __future__ import annotations

import re

_SAVED = ("The content was successfully saved to ", "The user made the following updates to your content:")
_RAN = "Command executed."
_WROTE = "<file_write_result>"
_CODEX_BEGINNINGS = ("Chunk ID: ", "Exit code: ", "Wall time: ")
_BEGINNINGS = ("Command: ", "MCP tool '", _RAN, _WROTE, *_SAVED, *_CODEX_BEGINNINGS)

BEGINNING_CHARS = 80
"""Of a text, in which a frame begins."""

END_CHARS = 2000
"""Of a text, in which it is looked for how a command ended."""

_CODEX = re.compile(
    r"(?:Chunk ID: \w{1,40}\n)?(?:Exit code: (?P<ended>-?\d{1,10})\n)?Wall time: [\d.]{1,20} seconds\n"
    r"(?:Process exited with code (?P<code>-?\d{1,10})\n|Process running with session ID (?P<session>\d{1,12})\n)?"
    r"(?:Original token count: \d{1,12}\n)?(?:Total output lines: \d{1,12}\n)?(?:Output:(?:\n|\Z)|\Z)"
)
_SHELL = re.compile(r"Command: .{0,20000}?\nDirectory: [^\n]*\n(?:Output|Stdout): ", re.DOTALL)
_SHELL_END = re.compile(r"(?:\n(?:Stderr|Error|Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*)+\s*\Z")
_EXECUTED = re.compile(rf"\s{{0,8}}{re.escape(_RAN)}\s{{0,8}}Output:\n?(?=\s{{0,8}}\S)")
_AS_USUAL = re.compile(r"(?m)^(?:Process Group PGID: .*|\w[\w ]*: \((?:none|empty)\)|(?:Exit Code|Signal): 0)(?:\n|\Z)")
"""Lines which say that a command ended as it should."""

_SAVED_FILE = re.compile(
    r"\s{1,8}Here is the full, updated content of the file that was saved:\s{1,8}<final_file_content path=\"[^\"\n]*\">"
    r".*</final_file_content>(?:\s{1,8}IMPORTANT: For any future changes to this file, [^\n]*)?",
    re.DOTALL,
)

_WRITTEN_FILE = re.compile(
    rf"\s{{0,8}}{_WROTE}\s{{0,8}}<path>(?P<path>[^<\n]{{0,1000}})</path>\s{{0,8}}<operation>(?P<done>\w{{1,20}})</operation>"
)
_WRITTEN_END, _NOTICE = "</file_write_result>", "<notice>"
_PROBLEMS = re.compile(r"</?problems>")
"""How Roo Code says that it wrote a file, and what checks say of it."""

_MCP_ERROR = re.compile(r"MCP tool '[^'\n]{1,80}' reported tool error for function call: ")
_RESPONSE = " with response: "


def without_saved_file(text: str) -> str:
    """Return the words of an editor about a file that it saved, without the file; any other *text* as it is."""
    if (wrote := _WRITTEN_FILE.match(text)) is not None and (end := text.find(_WRITTEN_END, wrote.end())) >= 0:
        # that a file has been modified, editors say where somebody else did it
        done = wrote["done"].replace("modified", "updated")
        rest = _PROBLEMS.sub("", text[wrote.end() : end].partition(_NOTICE)[0]).strip()
        below = text[end + len(_WRITTEN_END) :].partition(_NOTICE)[0].strip()
        return "\n".join(filter(None, (f"{wrote['path']} has been {done}.", rest, below)))
    return _SAVED_FILE.sub("", text, count=1) if text.lstrip().startswith(_SAVED) else text


def without_shell_frame(text: str) -> str:
    """Return the words that a command printed, and what is unusual of how it ended; any other *text* as it is."""
    if (ran := _EXECUTED.match(text)) is not None:
        return text[ran.end() :]
    if text.startswith(_CODEX_BEGINNINGS) and (frame := _CODEX.match(text)) is not None:
        code = frame["ended"] or frame["code"]
        ended = f"exit code: {code}" if code and int(code) else ""
        running = f"still running, session {frame['session']}" if frame["session"] else ""
        return "\n".join(filter(None, (ended, running, text[frame.end() :])))
    begins = _SHELL.match(text)
    ends = _SHELL_END.search(text, max(begins.end() - 1, len(text) - END_CHARS)) if begins else None
    if not begins or not ends:
        return text
    said = text[begins.end() : ends.start()].removesuffix("\nStderr: (empty)")
    ended = _AS_USUAL.sub("", ends.group().strip())
    return "\n".join(filter(None, ("" if said == "(empty)" else said, ended.strip())))


def failed_response(text: str) -> str:
    """Return the JSON that a tool answered of which a *text* says that it failed; empty where it says no such thing."""
    return text.rpartition(_RESPONSE)[2] if _MCP_ERROR.match(text) else ""


def may_be_framed(text: str) -> bool:
    """Tell cheaply whether a *text* may have one of the frames."""
    return text[:BEGINNING_CHARS].lstrip().startswith(_BEGINNINGS)
