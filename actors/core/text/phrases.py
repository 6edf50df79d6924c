"""Phrases by language: how a rule, a decision and an outcome sound. What is not bound to a language is in `values`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import re2

from .patterns import found, stands

SENTENCES_MAX = 2_000
"""Looked at in one text; whoever writes more pastes a document."""

_SENTENCE = re2.compile(r"(?:[^\n.!?。！？]|[.!?][^\s.!?])+")
"""A full stop inside a file name or a version ends no sentence."""

_RULE = """
must|mustn't|never|always|should|shouldn't|cannot|do not|don't|required|forbidden|make sure|avoid
|not allowed|no more than|without exception|only ever|use only
|muss|müssen|musst|nie|niemals|immer|darfst?|dürfen|verboten|nur|sollst?|sollen|nicht erlaubt
|unbedingt|stets|bitte nicht|höchstens
|doit|doivent|dois|devez|jamais|toujours|interdite?s?|obligatoire|il faut|seulement
|uniquement|ne pas|n'utilisez|assurez-vous
|debe|deben|debes|nunca|jamás|siempre|prohibid[oa]s?|obligatori[oa]|solo|sólo|solamente|no se puede|hay que|asegúrate
|deve|devem|sempre|proibid[oa]|somente|apenas|mai|vietat[oa]|bisogna|soltanto
|должен|должна|должны|никогда|всегда|нельзя|запрещено|только|обязательно
"""
_RULE_JOINED = (
    "必须|必須|不得|禁止|务必|務必|不要|不能|不可|总是|總是|永远|永遠|从不|只能|一定要|应该|應該|切勿|请勿"
    + (
        "|しなければ|なければなり|必ず|べき|してはいけ|しないで|てはなら|禁じ|常に|決して|のみ|だけ"
        "|항상|절대|반드시|하지 마|금지"
    )
)
_DECISION = """
decided|decision|chose|chosen|settled on|go with|will use|'ll use|let's use|instead of|switched to
|entschieden|entscheidung|beschlossen|wir nehmen|wir verwenden|ausgewählt|anstatt|stattdessen
|décidé|décision|choisi|retenu|nous utilisons|utiliserons|au lieu de|plutôt que
|decidido|decidimos|decisión|elegid[oa]|elegimos|usaremos|vamos a usar|en lugar de|en vez de
|decidiu|decisão|escolhid[oa]|deciso|scelto|invece di|решили|решено|выбрали|вместо
"""
_DECISION_JOINED = "决定|決定|选择|選擇|采用|採用|选用|改用|而不是|選択|にした|使うことに|代わりに|ことにし|결정|선택"
_OUTCOME = """
fixed|successfully|completed|passed|resolved|root cause|conclusion|turns out|confirmed
|behoben|erfolgreich|abgeschlossen|ursache|gelöst|herausgestellt|fazit|bestätigt
|corrigée?s?|terminée?s?|réussie?|résolue?|la cause|conclusion|confirmée?
|corregid[oa]|completad[oa]|terminad[oa]|resuelt[oa]|éxito|la causa|conclusión|confirmad[oa]
|corrigid[oa]|concluíd[oa]|risolt[oa]|completat[oa]|исправлено|успешно|завершено|причина
"""
_OUTCOME_JOINED = "完成|成功|修复|修復|解决|解決|原因是|根本原因|结论|結論|完了|修正し|判明|確認でき|원인|해결|완료"

_CAUSE = """
because|causes?|caused|due to|reasons?|reason why|explains|that's why|turned out|culprit
|weil|ursache|grund|gründe|liegt an|liegt daran|wegen|deshalb|daher|parce que|à cause|raison
|porque|causa|debido a|motivo|perché|потому что|из-за|причина
"""
_CAUSE_JOINED = "因为|因為|由于|由於|导致|導致|原因|所以|ため、|ためです|なので|からです|せいで|理由|때문|이유"

_HEADING = re2.compile(r"\s{0,3}(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$|[^\s\-*\d][^.!?;]{1,60}[:：]\s*$)")
_BINDS = re2.compile(
    r"(?i)\b(?:constraints?|conditions?|requirements?|rules|criteria|guidelines|output format|plan|must"
    r"|bedingungen|anforderungen|regeln|vorgaben|contraintes|conditions|exigences|règles"
    r"|restricciones|condiciones|requisitos|reglas)\b|制約|条件|要件|ルール|约束|要求|规则|約束|規則"
)
"""How a heading sounds below which it is said what must be kept, or is to be done."""


def _pattern(words: str, joined: str) -> Any:
    """Return the pattern of *words* between other than letters, and *joined* anywhere: some scripts do not part words.

    RE2's own word boundary knows ASCII alone, so that `décidé` would end nowhere.
    """
    split = "".join(words.split("\n"))
    return re2.compile(rf"(?i)(?:\A|[^\pL\pN])(?:{split})(?:[^\pL\pN]|\z)|{joined}")


KINDS: tuple[tuple[str, Any], ...] = (
    ("rule", _pattern(_RULE, _RULE_JOINED)),
    ("decision", _pattern(_DECISION, _DECISION_JOINED)),
    ("outcome", _pattern(_OUTCOME, _OUTCOME_JOINED)),
)

CAUSE = _pattern(_CAUSE, _CAUSE_JOINED)
"""How it sounds where somebody says why something is as it is. No kind of its own: rules before 3 know three."""


_NAMED = _pattern(
    "rules?|regeln?|règles?|consignes?|reglas?|regras?|regol[ae]|правил[оа]",
    "规矩|規矩|规则|規則|规定|規定|ルール|決まり|きまり|규칙",
)
"""How a rule is called where somebody gives one that says neither must nor never."""

_MOSTLY = re.compile(
    r"(?i)\b(?:as a (?:general )?rule|rules? of thumb|in der regel|en règle générale|por regla general|как правило)\b"
)
"""Where it is no rule, but what is so mostly."""


def names_rule(text: str) -> bool:
    """Tell whether *text* speaks of a rule as one."""
    if not stands(_NAMED, text.encode("utf-8", "replace")):
        return False
    bare = _MOSTLY.sub("", text)
    return bare == text or stands(_NAMED, bare.encode("utf-8", "replace"))


def says_why(text: str) -> bool:
    """Tell whether *text* says why something is as it is."""
    return stands(CAUSE, text.encode("utf-8", "replace"))


def telling(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the sentences of *data* that tell a rule, a decision or an outcome, each with its kind."""
    wanted = [(kind, pattern) for kind, pattern in KINDS if stands(pattern, data)]
    if not wanted:
        return
    for sentence in found(_SENTENCE, data, most=SENTENCES_MAX):
        line = sentence.encode()
        for kind, pattern in wanted:
            if stands(pattern, line):
                yield kind, sentence


def tells(text: str) -> int:
    """Return how many of these *text* tells: a rule, a decision, an outcome, and why something is as it is."""
    return len({kind for kind, _ in telling(text.encode("utf-8", "replace"))}) + says_why(text)


def announces(line: str) -> bool:
    """Tell whether *line* is nothing but a heading below which it is said what must be kept."""
    if line.rstrip().endswith((".", "!", "?")) or not (_HEADING.match(line) and _BINDS.search(line)):
        return False
    return next(telling(line.encode("utf-8", "replace")), None) is None


def binding(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that say what must be kept: those below a heading that announces it."""
    found: list[int] = []
    is_below = False
    for number, line in enumerate(lines):
        if _HEADING.match(line):
            is_below = bool(_BINDS.search(line))
        elif is_below:
            found.append(number)
    return found
