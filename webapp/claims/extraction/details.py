"""What a number in a sentence is of: its metric, the baseline it is compared with, the setting.

Taken from the words beside the number; what is not written stays empty.
"""

import re

from .expressions import Expression
from .factors import VERBS
from .place import Place
from .vocabulary import KINDS, METRIC, METRIC_WORD, one_of, words

UNKNOWN = "reported number"  # nothing beside it says of what

_CHANGE = words("change noun")
_ADJECTIVE = words("adjective")
# A phrase that names a metric ends at one of these.
_END_OF_NAME = words("end of name") + r"\b"
# IS, the inception score, is a name where "is" is not: "an IS of 9.9".
_NAME_WORD = rf"(?:is(?= of )|(?!{_END_OF_NAME})[a-z](?:[\w/@'^*-]|\.\d)*)"
_NAME = rf"(?:number of )?{_NAME_WORD}(?: {_NAME_WORD}){{0,4}}"
_ARTICLES = r"(?:the |its |their |our |average |overall )*"
# What follows the first of several numbers: "3% and 4%, respectively, in recall".
_LIST = r"(?:[,+\d.%x()\s]|(?:and|or|vs\.?|respectively)\b)*"
_LIST_OF_NUMBERS, _DIGIT = re.compile(_LIST), re.compile(r"\d")
_ROUGHLY = "(?: " + words("roughly") + ")* ?$"
# Behind the number: "24% reduction in latency", "24% latency reduction", "24% lower latency".
_GAIN_IN = re.compile(
    rf" ?(?:{_ADJECTIVE} )*(?P<change>{_CHANGE}) (?:in terms of|in|of|on|for) {_ARTICLES}"
    rf"(?P<of>{_NAME})"
)
_NAMED_GAIN = re.compile(rf" ?(?:{_ADJECTIVE} )*(?P<of>{_NAME}) (?P<change>{_CHANGE})\b")
_COMPARATIVE = re.compile(
    r" ?(?P<of>(?:(?!is |are |was |were )\w+ )?(?:faster|slower|smaller|cheaper|larger|better|worse"
    r"|(?:fewer|less|lower|higher|more|greater|better|shorter|longer)"
    rf" {_NAME_WORD}(?: {_NAME_WORD})?)"
    r"(?: (?:inference|training|decoding|prefill\w*|search|convergence))?)"
)
_BEHIND = re.compile(rf" ?(?!per )(?:{_ADJECTIVE} )*(?:of (?:the |its )?)?(?P<of>{_NAME})")
_IN_BEHIND = re.compile(
    rf"{_LIST}(?:{_ADJECTIVE} |{_CHANGE} )*(?P<joint>in terms of|in|on|of) {_ARTICLES}"
    rf"(?!average\b)(?P<of>{_NAME})"
)
# Before it: "outperforms the dense model by", "reduces latency by", "an FID of", "FID =".
_VERB = words("changing verb")
_BEATS = re.compile(
    r"\b(?:outperform|surpass|exceed|beat)\w*(?: the)? "
    rf"(?P<of>(?:(?!, (?:\w+ ){{0,3}}(?:{_VERB}|achiev|yield|with|while))[^;()]){{3,90}}?) by"
    + _ROUGHLY
)
# "and code size by" of "reduces memory by 4.7 GB and code size by 3%"
_ALSO = re.compile(rf"[\d%xbs] (?:\w+ )?and {_ARTICLES}(?!{_VERB})(?P<of>{_NAME}) by{_ROUGHLY}")
_GAIN_OVER = re.compile(
    rf"(?P<of>{_CHANGE}) (?:over|compared to|relative to) [^,;()]{{1,50}} (?:of|from){_ROUGHLY}"
)
_CHANGES = re.compile(  # the nearest verb: "reducing time and boosting speed to"
    rf"^.*\b{_VERB} {_ARTICLES}(?P<of>{_NAME})(?: (?:(?!and achiev|by )[^.;,]|\.\d){{0,70}}?)?"
    rf" ?(?:by|from|to)?{_ROUGHLY}"
)
_IS = re.compile(
    rf"(?<![\w'-])(?P<of>(?:{_NAME_WORD} of (?:the )?)?{_NAME})(?: ?\([^)]*\))? "
    r"(?:(?:ris|ros|fall|fell|grow|grew|drop)\w* )?"
    + one_of(r"of is was are were reach\w* at to by from score_of rate_of = :")
    + _ROUGHLY
)
# "throughput at 96K tokens rises", "accuracy drops by only", "memory shrinks"
_MOVES = re.compile(
    rf"(?<![\w'-])(?P<of>(?:{_NAME_WORD} of (?:the )?)?{_NAME})"
    r"(?: (?:at|on|in|for|with|under|across|per) [^,;()]{1,40}?)? (?:\w+ly )?"
    r"(?:ris|rose|fall|fell|grow|grew|drop|shr[iau]nk|increas|decreas|declin|climb)\w*"
    rf"(?: (?:by|from|to))?{_ROUGHLY}"
)
_KEEPS = re.compile(rf"\b(?:retain|preserv|maintain|recover|keep)\w*{_ROUGHLY}")
_EQUALS = re.compile(rf"(?<![\w'-])(?P<of>{_NAME_WORD}(?: {_NAME_WORD})?) ?[=:≈(] ?$")
_SCORE_BEHIND = re.compile(rf" (?P<of>{METRIC}(?: scores?)?)(?![a-z])")  # "55.8 AP"
_ON_SCORE = re.compile(rf" on (?!average|mean)(?P<of>(?:\w+ )?{METRIC}(?:[ -]?score)?)(?!\w)")
_ENDS_IN_SCORE = re.compile(METRIC + "$")
_BARE_GAIN = re.compile(rf"(?:{_ADJECTIVE} )*({_CHANGE})", re.IGNORECASE)
_OBJECT = re.compile(rf" {_ARTICLES}(?P<of>{_NAME})")  # "halves the training time"
_CLAUSE = re.compile(  # between two
    r"; |,? (?:while|whereas) |^(?:while|whereas|although|unlike) [^,;]{3,200}, "
)
_CLAUSE_END = r"(?=,|;|\(|\)|\. |\.$|(?: from ?)?$| while\b| when\b"
_BASELINE = re.compile(
    r"\b(?:over|(?<!rather )than|(?:in comparison|compared|relative) (?:to|with)|against|versus"
    rf"|vs\.?) (?!just |only |for )(?P<of>[^,.;()\d\\][^,.;()]{{2,70}}?){_CLAUSE_END}"
    r"| and (?:achiev|improv|reduc)\w*| (?:on|across|by|in|under|with)\b)"
)
_SETTING = re.compile(
    rf"\b(?:on|across|under|at|for) "
    r"(?!least|most|average|the same time|a fraction|example|instance|[\d.]+%"
    rf"|(?:an?|the) (?:\w+ )?{METRIC}\b)"
    rf"(?P<of>[^,.;()]{{2,70}}?){_CLAUSE_END}"
    r"| (?:compared|over|than|rises|falls|drops|goes|stays|remains|is|are|reaches|but)\b"
    r"| (?:show|demonstrat|reveal|indicat|confirm|suggest)"
    rf"|(?: and)?(?: an?)? {METRIC}\b"
    r"| and (?:[+-]?\d|by\b|achiev|improv|reduc|speed|cut|rais|increas))"
)
_REACH = 160  # characters behind the number: where the setting and the baseline may begin


class Details:
    """Looks for words beside one number, and gives them back as the abstract writes them.

    What is not written is "".
    """

    def __init__(
        self, expression: Expression, place: Place, abstract: str, former: Expression | None = None
    ) -> None:
        self._unit = expression.unit
        self._place = place
        self._abstract = abstract
        # Where its clause begins in `before`.
        self._clause = max((one.end() - 1 for one in _CLAUSE.finditer(place.before)), default=0)
        self._before_it = place.before[self._clause :]
        if place.folded.text.startswith("from ", expression.start):
            self._before_it += "from "
        self._after_it = _CLAUSE.split(place.after, maxsplit=1)[0]
        # What stands before the former outcome is of that one.
        self._own = max((former.end if former else 0) - place.before_start - self._clause, 0)
        self._is_verb = place.folded.text[expression.start : expression.end] in VERBS

    def metric(self) -> str:
        """What the number is of; "an F1 gain" of "gains of 3% in F1"."""
        name, of = self._nearest_metric(), _IN_BEHIND.match(self._after_it)
        gain = _BARE_GAIN.fullmatch(name)
        if gain and of and of["joint"].startswith("in"):
            return f"{self._after(of)} {gain[1].removesuffix('s')}"
        return name

    def _nearest_metric(self) -> str:
        """ "24% lower latency", else "an FID of 2.1", else the nearest."""
        found = self._metric_behind()
        if found or _BEATS.search(self._before_it):
            return found or "improvement"
        kind = KINDS.get(self._unit, "")
        if moves := _MOVES.search(self._before_it):
            return self._before(moves)
        for pattern in (_GAIN_OVER, _ALSO, _CHANGES, _IS, _EQUALS):
            match = pattern.search(self._before_it)
            if match and not (kind and _ENDS_IN_SCORE.search(match["of"])):  # AP is never 15 FPS
                return self._before(match)
        if not kind and (named := list(METRIC_WORD.finditer(self._before_it, self._own))):
            return self._before(named[-1], 0)
        match = _BEHIND.match(self._after_it)
        return self._after(match) if match else kind or UNKNOWN

    def _metric_behind(self) -> str:
        after = self._after_it
        for pattern in (_GAIN_IN, _NAMED_GAIN):
            if found := pattern.match(after):
                return f"{self._after(found)} {found['change'].removesuffix('s')}"
        if found := (_OBJECT if self._is_verb else _COMPARATIVE).match(after):
            return self._after(found)
        if _BEATS.search(self._before_it):
            found = _IN_BEHIND.match(after)
            return self._after(found) if found else ""
        if found := (_ON_SCORE if self._unit == "%" else _SCORE_BEHIND).match(after):
            return self._after(found)
        found = _BEHIND.match(after) if self._unit not in {"x", "pp", "points", ""} else None
        if found and after.startswith(" of ") and _KEEPS.search(self._before_it):
            return self._after(found)
        return self._after(found) if found and METRIC_WORD.search(found["of"]) else ""

    def baseline(self) -> str:
        """What the number is compared with."""
        if found := _BEATS.search(self._before_it):
            return self._before(found)
        return self._nearest(_BASELINE)

    def setting(self) -> str:
        """Where it was measured: the data, the device, the length."""
        return self._nearest(_SETTING)

    def _nearest(self, pattern: re.Pattern[str]) -> str:
        """Behind the number, or before it where another number stands between."""
        behind, numbers = pattern.search(self._after_it), _LIST_OF_NUMBERS.match(self._after_it)
        if behind and behind.start() > _REACH:
            behind = None
        before = list(pattern.finditer(self._before_it))
        start = numbers.end() if numbers else 0
        if behind and not (before and _DIGIT.search(self._after_it, start, behind.start())):
            return self._after(behind)
        return self._before(before[-1]) if before else ""

    def _before(self, found: re.Match[str], group: str | int = "of") -> str:
        offset = self._place.before_start + self._clause
        return self._written(offset + found.start(group), offset + found.end(group))

    def _after(self, found: re.Match[str]) -> str:
        offset = self._place.after_start
        return self._written(offset + found.start("of"), offset + found.end("of"))

    def _written(self, start: int, end: int) -> str:
        """The words at a place of the folded text, as the abstract writes them, without TeX."""
        first, last = self._place.folded.place(start, end)
        plain = re.sub(r"\\[a-zA-Z]+|[\\{}*$]", "", self._abstract[first:last])
        return " ".join(plain.split()).strip(" -,:(")[:200]
