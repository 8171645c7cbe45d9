"""What a number of an abstract is of: metric, relation, subject, baseline, setting; or nothing.

A sentence is read as a string of word classes (`tokens`), in which a few forms say what a number
is of: "METRIC of NUMBER", "raises METRIC by NUMBER", "NUMBER gain in METRIC". Only a number that
stands in forms of one metric gets a tuple. Lists are paired only where both sides are as long;
of several numbers of one metric each must have its own setting, baseline or subject. What stands
in no form stays a number in its sentence.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from webapp.claims.numbers import SIZES, TIMES, Folded

from .expressions import Expression
from .factors import VERBS
from .tokens import ACRONYM, METRIC, NOUN, NUMBER, Token, tokens
from .vocabulary import KINDS

Relation = Literal["level", "gain", "loss", "share", "within", "ratio"]
Direction = Literal["", "more", "less", "better", "worse"]


@dataclass(frozen=True)
class Phrase:
    """Words of an abstract, at `start:end` of its folded text."""

    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """What a number is of; phrases that the sentence does not give are None."""

    metric: Phrase | None
    relation: Relation
    direction: Direction
    subject: Phrase | None = None
    baseline: Phrase | None = None
    setting: Phrase | None = None
    kind: str = ""  # the metric where only the unit names it: "frame rate"


# Pieces of the forms, in the classes of `tuples.toml`.
_LIST = r"#(?:[,&/]{1,2}#)*"
_NAMES = r"[MA](?:[,&/]{1,2}[MA])*"
_PLACE = r"(?:[pif](?P<setting>[NA](?:o[NA])?))?"
_OVER = r"(?:v(?P<baseline>[NAM]))?"
# n: the numbers, m: the metrics, how: the word that says the relation.
_FORMS: tuple[tuple[str, str], ...] = (
    # "3 % gain in F1", "a gain of 3 % in F1", "an F1 gain of 3 %", "3 % F1 gain"
    ("change", rf"(?P<n>{_LIST})(?P<how>[gl]){_OVER}(?:[po]?(?P<m>M)|i(?P<m2>{_NAMES}))"),
    ("change", rf"(?P<how>[gl]){_OVER}[of](?P<n>{_LIST})(?:[po](?P<m>M)|i(?P<m2>{_NAMES}))"),
    ("change", rf"(?P<how>[gl])o?(?P<n>{_LIST})[ip]?(?P<m>M)(?![,&]{{1,2}}[MA])"),
    ("change", rf"(?P<m>M)(?P<how>[gl]){_OVER}{_PLACE}[obpfi]?(?P<n>{_LIST})"),
    ("change", rf"(?P<m>A)(?P<how>g){_OVER}[obf](?P<n>{_LIST})"),
    ("change", rf"(?P<m>A)(?P<how>l){_OVER}[obf]?(?P<n>{_LIST})"),
    ("change", rf"(?P<n>{_LIST})(?P<m>[MA])(?P<how>[gl])"),
    ("change", rf"(?P<how>[gl])[oi](?P<m>[MA])[o(](?P<n>{_LIST})"),
    ("amount", r"(?P<n>#)(?P<how>[gl])[io](?P<m>N)"),
    ("amount", r"(?<![NAM])(?P<how>[gl])o(?P<n>#)i(?P<m>N)"),
    # "raises F1 by 3 %", "F1 rises by 3 %", "F1 is raised from 3 to 4 %"
    ("change", rf"(?P<how>[UD])(?P<m>{_NAMES})(?:o[NA])?{_PLACE}{_OVER}b(?P<n>{_LIST})"),
    ("amount", rf"(?P<how>[UD])(?P<m>N){_PLACE}{_OVER}b(?P<n>#)(?![MA])"),
    ("from to", rf"(?P<how>[UD])(?P<m>N){_PLACE}\(?(?P<n>#)"),
    ("change", r"(?P<how>[UD])[NA]b(?P<n>#)(?P<m>M)"),
    ("change", rf"(?P<how>[UD])(?P<m>[MA])(?:o[NA])?{_PLACE}\(?(?P<n>#)(?![MA])"),
    ("change", rf"(?P<m>[MA])e?(?P<how>[UD]){_PLACE}b?(?P<n>#)(?![MA])"),
    ("change", r"(?P<m>M)[pif][NA](?P<how>[UD])b?(?P<n>#)(?![MA])"),
    ("level", rf"(?P<how>[UD])(?P<m>[MA]){_PLACE}t(?P<n>#)"),
    ("level", r"(?P<m>[MA])e?(?P<how>[UD])t(?P<n>#)"),
    # "outperforms the baseline by 3 % in F1"
    (
        "change",
        rf"(?P<how>B)(?P<baseline>[NA]){_PLACE}b(?P<n>{_LIST})(?:p?(?P<m>M)|i?(?P<m2>{_NAMES}))",
    ),
    ("change", r"(?P<how>B)(?P<m>M)o(?P<baseline>[NA])b(?P<n>#)"),
    # "3x lower latency", "3x faster", "a 3x speed-up", "a speed-up of 3x", "halves the latency"
    ("change", r"(?P<n>#)(?P<how>c)(?P<m>[MN])"),
    ("speed", rf"(?P<n>{_LIST})(?P<m>s)"),
    ("speed", rf"(?P<m>s){_OVER}{_PLACE}[of](?P<n>{_LIST})"),
    ("speed", r"(?P<n>#)(?P<m>c)(?![MN])"),
    ("verb", r"(?P<n>#)(?P<m>[MN])"),
    # "an F1 of 71 %", "F1 (71 %)", "71 % F1", "needs 2 GB of memory"
    ("level", rf"(?<![UD])(?<![gl][pofi])(?P<m>{_NAMES})o?=?(?<!M)(?<!A)(?P<n>{_LIST})"),
    ("level", rf"(?<![UD])(?<![gl][pofi])(?P<m>M){_PLACE}\(=?(?P<n>#)(?!M)"),
    ("level", rf"(?P<m>[MA](?:[,&/]{{1,2}}[MA])+):(?P<n>#[,&/]{{1,2}}{_LIST})"),
    ("level", rf"(?P<m>M){_PLACE}[Ve:]=?(?P<n>#)(?![MA])"),
    ("level", r"(?<=[KV])(?P<m>M)(?P<n>#)(?![MA])"),
    ("level", rf"(?P<m>{_NAMES})V?(?P<n>#[,&/]{{1,2}}{_LIST})"),
    ("level", rf"(?<![#bMA])(?<!#[,&/])(?<!#,&)(?<![gl]o)(?P<n>{_LIST})(?P<m>M)(?![glso(=:])"),
    ("gained", rf"(?P<how>V)(?P<n>{_LIST})[ip](?P<m>M)(?![,&]{{1,2}}M)"),
    ("level", rf"(?<=V)(?P<n>{_LIST})[ip](?P<m>M(?:[,&]{{1,2}}M)*)"),
    ("amount of", r"(?<!K)(?P<n>#)o(?P<m>M)"),
    # "accuracy stays within 1 % of the full cache", "keeps 93 % of the accuracy"
    ("within", r"(?P<m>M)K?W(?P<n>#)(?:o(?P<baseline>[NAM]))?"),
    ("within", r"W(?P<n>#)o(?P<m>M)o(?P<baseline>[NAM])"),
    ("share", r"K(?P<n>#)o(?P<m>[MN])"),
)
_GRAMMAR = tuple((form, re.compile(pattern)) for form, pattern in _FORMS)
_BETTER = re.compile(r"improv|enhanc|boost|gain|better|outperform|surpass|exceed|beat|advantage")
_WORSE = re.compile(r"degrad|worse")
_COMPARATIVES = (" higher", " lower", " faster", " slower", " better", " worse")
_NOT_LEVEL = (*_COMPARATIVES, " down to ", " of ")  # "an accuracy of 99 % of the dense model's"
_AMOUNTS = SIZES | TIMES | {"j", "mj", "kj", "wh", "kwh"}
_ADJECTIVE = re.compile(r"(?:[ae]nt|[ai]te|ive|ful|ous|ble|ly|ed|al|er|ing)$")
_ARTICLE = re.compile(r"(?:the|an?|its|their|our) ")
_LESS = re.compile(r"lower|slower|fewer|smaller|less|cheaper|shorter|hal[fv]")
_COORDINATED = re.compile(r"[NAM](?:,?&|/)$")
# What may follow a number and its metric: where, and over what.
_WHERE = r"[pi](?P<setting>[NA](?:o[NA])?(?P<also>&[NA](?=[.,)xh]|$))?)"
_AFTER = re.compile(
    rf"(?:{_WHERE}|v(?P<baseline>[NAM](?:o[NA])?)(?!,?&[NAM]))(?=[,&)xyhvpiwr#.]|$)"
)
_EACH = r"(?:[NM][=:])?(?P<each>[NA](?:[,&/]{1,2}[NA])+)(?=[.,;)xr(]|$)"
_SETTINGS = re.compile(rf"(?:v(?P<baseline>[NAM](?:o[NA])?))?[pif]{_EACH}")
_BASELINES = re.compile(rf"v{_EACH}")
_RESPECTIVELY, _PAIR = re.compile(r",?r"), re.compile(r"[NA],?&[NA]")
_EACH_BEFORE = re.compile(r"(?P<place>[pi])?(?P<each>[NA](?:,[NA])*,?&[NA])(?=[,V])")
_FIRST_SETTING = re.compile(r"^[pi](?P<setting>[NA](?:o[NA])?),")
_BEATEN = re.compile(r"B(?P<baseline>[NA])(?!&)")
_SUBJECT = re.compile(r"(?:^|[yh,])(?P<subject>[NA])(?=[VUDBK]|e#)")
_ANOTHER = re.compile(r"[yh]|[x,]&?[NA]|wN[#VUDBK]")  # a clause whose subject may be another
_AGAIN = re.compile(r"[,&]{1,2}b?")
_AGAIN_OF = re.compile(r"[,&]{1,2}(?P<m>[MN])b?")
_ALSO_BEATS = re.compile(r"(?:[pi][NA])?[,&x]{1,2}B(?P<baseline>[NA])b")
_ALSO_GAINS = re.compile(r"(?:[pi][NA])?[,&]{1,2}N?"), re.compile(r"N?gv(?P<baseline>[NAM])")
_NEXT_SETTING, _NEXT_METRIC = re.compile(r"[pif][NA]"), re.compile(r"[iop](?P<m>[MN])")
MAX_SENTENCE = 2000  # characters; what is longer is no sentence, and its forms are not looked for
MAX_WORDS = 9  # of a phrase that is shown
_VAGUE = re.compile(
    r"(?:^|\s)(?:it|we|this|these|that|they|results?|experiments?|average|both|all|them|each|there|instance"
    r"|example|most|others?|addition|contrast|particular|total|summary|comparison|(?:paper|work|study|time|order|our|the|performance))$"
    r"|^(?:this|these|those|all|both|such)\b(?= (?:work|paper|study|results?)$)"
)
_PERIOD = re.compile(r"(?:years?|months?|days?|hours?|epochs?|steps?|time|runs|seeds)$")
# Words that name no quantity: alone, or at the end of others.
_EMPTY_METRIC = re.compile(
    r"^(?:quality|efficiency|effectiveness|ability|capabilit(?:y|ies)|robustness|utility)$"
    r"|(?:performances?|results?|gaps?|settings?|scenarios?|environments?|tasks?|conditions?"
    r"|domains?|regimes?|cases?|languages?|datasets?|benchmarks?|points?|average|metrics?"
    r"|state of the art|sota|baselines?|methods?|models?|approach(?:es)?|improvements?|backbones?"
    r"|networks?|systems?|agents?|algorithms?|frameworks?|detectors?|classifiers?|llms?|variants?"
    r"|transformers?|pipelines?|counterparts?|ones?|lines?|applications?|per forward)$"
)
_PHYSICAL = re.compile(
    r"latency|time|memory|cost|flops|energy|throughput|speed|cache|params|parameters|tokens|size"
    r"|bitrate|bd|vram|budget|footprint|consumption"
)


def _said_direction(how: str, word: str) -> Direction:
    """Which way a word of gain or loss says that something goes."""
    if _WORSE.search(word):
        return "worse"
    if how in {"l", "D"} or (how == "c" and _LESS.search(word)):
        return "less"
    return "better" if _BETTER.search(word) else "more"


class Sentence:
    """A sentence with its reported numbers, read once."""

    def __init__(
        self, folded: Folded, sentence: tuple[int, int], reported: Sequence[Expression]
    ) -> None:
        self._folded, self._text, self._reported = folded, folded.text, reported
        is_short = sentence[1] - sentence[0] <= MAX_SENTENCE
        self._tokens = tokens(folded, sentence, reported) if is_short else []
        self.classes = "".join(token.kind for token in self._tokens)
        self._found: dict[int, _Found] = {}

    def readings(self) -> dict[int, Reading]:
        """The tuple of each reported number that has one."""
        unsure: set[int] = set()
        for form, pattern in _GRAMMAR:
            for match in pattern.finditer(self.classes):
                for index, reading in self._of_form(form, match):
                    known = self._found.get(index)
                    if known is None:
                        self._found[index] = _Found(reading, match.start(), match.end())
                    elif known.reading.metric != reading.metric:
                        unsure.add(index)
        self._rates()
        self._repeated()
        worded = {index: self._with_words(index, found) for index, found in self._found.items()}
        return {
            index: reading
            for index, reading in worded.items()
            if reading and index not in unsure and self._is_plausible(index, reading)
        }

    def _of_form(self, form: str, match: re.Match[str]) -> Iterator[tuple[int, Reading]]:
        groups = match.groupdict()
        numbers = self._at(match, "n")
        names = "m" if groups.get("m") else "m2"
        metrics = [t for t in self._at(match, names) if t.kind in METRIC + ACRONYM + NOUN + "sc"]
        if len(metrics) > len(numbers):
            metrics = metrics[-len(numbers) :]  # "recall for PointNav and SPL of 67 %"
        if len(metrics) not in {1, len(numbers)}:
            return
        start = match.start(names)
        if _COORDINATED.search(self.classes[max(0, start - 2) : start]):
            return  # "Pearson and Spearman correlations of 0.92 and 0.90"
        how = groups.get("how") or ""
        word = self._words(self._tokens[match.start("how")]) if how else ""
        setting = self._shown(match, "setting") if groups.get("setting") else None
        baseline = self._shown(match, "baseline") if groups.get("baseline") else None
        for at, token in enumerate(numbers):
            metric = metrics[at] if len(metrics) > 1 else metrics[0]
            relation = self._relation(form, how, word, self._reported[token.number], metric)
            if relation:
                start = metric.start
                if article := _ARTICLE.match(self._text, start, metric.end):
                    start = article.end()
                if how == "c" and metric.kind == NOUN and word.endswith(("faster", "slower")):
                    start = self._tokens[match.start("how")].start  # "faster inference"
                name = Phrase(start, metric.end)
                yield token.number, Reading(name, *relation, None, baseline, setting)

    def _relation(
        self, form: str, how: str, word: str, expression: Expression, metric: Token
    ) -> tuple[Relation, Direction] | None:
        """Relation and direction that a form and its word say; None where they say none."""
        if form in {"share", "within"}:
            return ("share" if form == "share" else "within"), ""
        if form in {"level", "amount of", "gained"}:
            is_gain = form == "gained" and word.startswith("gain")  # "gaining 18 % in accuracy"
            return ("gain", "better") if is_gain else self._level(form, expression)
        if self._text.startswith(" down to ", expression.end):
            return None  # "from 10 to 20 hours down to 4 to 6"
        is_amount = form not in {"amount", "from to"} or self._is_amount(metric, how, word)
        direction = self._direction(form, how, word, expression, metric) if is_amount else None
        if direction is None:
            return None
        if expression.unit == "x":
            return "ratio", direction
        return ("loss" if direction in {"less", "worse"} else "gain"), direction

    def _level(self, form: str, expression: Expression) -> tuple[Relation, Direction] | None:
        """A level, unless its sign, its unit or a comparative behind it says otherwise."""
        if form == "amount of" and expression.unit not in _AMOUNTS:
            return None
        ahead = _NOT_LEVEL if form == "level" else _COMPARATIVES
        if self._text.startswith(ahead, expression.end):
            return None  # "an AP that is 42 % higher"
        sign = self._text[expression.numbers[0].start]
        if sign in "+-" or expression.unit in {"pp", "points"}:
            return ("gain", "more") if sign != "-" else None
        return "level", ""

    def _direction(
        self, form: str, how: str, word: str, expression: Expression, metric: Token
    ) -> Direction | None:
        name = self._words(metric)
        is_quality = how == "c" and word not in {"faster", "slower"} and _ADJECTIVE.search(name)
        if is_quality or word.startswith("accelerat"):
            return None  # "11 % more accurate"; training that is 57 % faster is no more training
        if form == "verb":
            written = self._text[expression.start : expression.end]
            is_less = _LESS.match(written)
            return ("less" if is_less else "more") if written in VERBS else None
        if form == "speed":
            is_speed = metric.kind != "c" or name in {"faster", "slower"}
            return ("less" if name == "slower" else "more") if is_speed else None
        if expression.is_change:
            first, last = expression.numbers
            return "more" if last.value > first.value else "less"
        return None if form == "from to" else _said_direction(how, word)

    def _is_amount(self, metric: Token, how: str, word: str) -> bool:
        """Whether words that are no known metric name what rises or falls.

        "Reduces explanation size", "a gain in factual correctness"; not "boosts GPT-4", "a gain
        in low-resource settings".
        """
        name = self._folded.cased[metric.start : metric.end]
        is_plain = name.islower() and name.count(" ") < 5 and not re.search(r"\d", name)
        is_said = how == "g" or _said_direction(how, word) in {"more", "less"}
        return is_said and is_plain and not _EMPTY_METRIC.search(name)

    def _rates(self) -> None:
        """A rate says by its unit what it is of: 42 FPS."""
        for at, token in enumerate(self._tokens):
            if token.kind == NUMBER and token.number not in self._found:
                kind = KINDS.get(self._reported[token.number].unit, "")
                if kind:
                    rate = Reading(None, "level", "", kind=kind)
                    self._found[token.number] = _Found(rate, at, at + 1)

    def _repeated(self) -> None:
        """ "by 3 % on COCO and 4 % on LVIS": the second is of what the first is of."""
        last: _Found | None = None
        unit, words_end = "", 0
        for at, token in enumerate(self._tokens):
            if token.kind != NUMBER:
                continue
            index = token.number
            if index not in self._found and last:
                is_alike = self._reported[index].unit == unit
                joint = self.classes[words_end:at]
                metric = _AGAIN_OF.fullmatch(joint)
                after = _NEXT_METRIC.match(self.classes, at + 1)
                bare = replace(last.reading, setting=None, baseline=None)
                if metric:
                    named = self._tokens[words_end + metric.start("m")]
                    also = self._also(bare, named, index)
                    if also and (is_alike or joint.endswith("b")):
                        self._found[index] = _Found(also, at, at + 1)
                elif (
                    is_alike
                    and after
                    and _AGAIN.fullmatch(joint)
                    and self._is_behind(last, after["m"])
                ):
                    named = self._tokens[after.start("m")]
                    bare = replace(bare, metric=Phrase(named.start, named.end))
                    self._found[index] = _Found(bare, at, after.end())
                elif (
                    is_alike
                    and _AGAIN.fullmatch(joint)
                    and _NEXT_SETTING.match(self.classes, at + 1)
                ):
                    self._found[index] = _Found(bare, at, at + 1)
            if index not in self._found and last:
                self._continued(index, at, last, words_end)
            last = self._found.get(index)
            if last:
                unit = self._reported[index].unit
                words_end = self._words_end(max(last.end, at + 1))

    def _also(self, reading: Reading, metric: Token, index: int) -> Reading | None:
        """ "memory by 4.7 GB and code size by 3x": the same relation of another metric."""
        how = "D" if reading.direction == "less" else "U"
        is_amount = reading.direction in {"more", "less"} and self._is_amount(metric, how, "")
        if metric.kind == NOUN and not is_amount:
            return None
        relation = reading.relation
        if relation in {"gain", "loss", "ratio"}:
            is_less = reading.direction in {"less", "worse"}
            is_factor = self._reported[index].unit == "x"
            relation = "ratio" if is_factor else "loss" if is_less else "gain"
        return replace(reading, metric=Phrase(metric.start, metric.end), relation=relation)

    def _is_behind(self, found: "_Found", kind: str) -> bool:
        """Whether a number's metric stands behind it, and is of a kind ("a gain of 3 % in F1")."""
        metric = found.reading.metric
        number = next(t for t in self._tokens[found.start :] if t.kind == NUMBER)
        named = [t.kind for t in self._tokens if metric and t.start == metric.start]
        is_behind = metric is not None and metric.start > number.end
        return is_behind and named == [kind]

    def _continued(self, index: int, at: int, last: "_Found", words_end: int) -> None:
        """ "71 % accuracy, outperforming GPT-4 by 3 %", "…, a gain of 3 % over GPT-4"."""
        unit = self._reported[index].unit
        if unit == "x" or last.reading.relation == "ratio" or last.reading.metric is None:
            return
        joint, after = self.classes[last.end : at], _ALSO_GAINS[1].match(self.classes, at + 1)
        beaten = _ALSO_BEATS.fullmatch(self.classes, last.end, at)
        against, end = (beaten, at + 1) if beaten else (after, after.end() if after else at)
        if against and (beaten or _ALSO_GAINS[0].fullmatch(joint)):
            baseline = self._shown(against, "baseline")
            reading = Reading(last.reading.metric, "gain", "better", baseline=baseline)
            self._found[index] = _Found(reading, at, end)

    def _words_end(self, at: int) -> int:
        while after := _AFTER.match(self.classes, at):
            at = after.end()
        return at

    def _with_words(self, index: int, found: "_Found") -> Reading | None:
        """The tuple with the setting, baseline and subject that stand clearly there.

        None where several numbers of one metric are not told apart.
        """
        reading, at = found.reading, found.end
        numbers = [t.number for t in self._tokens[found.start : at] if t.kind == NUMBER]
        metrics = {f.reading.metric for i, f in self._found.items() if i in numbers}
        if len(numbers) > len(metrics):
            told = self._told_apart(found, numbers.index(index), len(numbers))
            if told is None:
                return None
            reading, at = told
        while after := _AFTER.match(self.classes, at):
            # "on A and B" of several numbers: which of the two?
            if reading.setting is None and not (after["also"] and len(self._reported) > 1):
                reading = replace(reading, setting=self._shown(after, "setting"))
            if reading.baseline is None:
                reading = replace(reading, baseline=self._shown(after, "baseline"))
            at = after.end()
        return replace(
            reading,
            setting=reading.setting or self._first_setting(),
            baseline=reading.baseline or self._beaten(found),
            subject=reading.subject or self._subject(found),
        )

    def _told_apart(self, found: "_Found", place: int, count: int) -> tuple[Reading, int] | None:
        """The tuple of a number of a list by what it alone has, and where those words end.

        "71 and 73 % on A and B", "over A and B"; "A and B reach 71 and 73 %, respectively".
        """
        reading, at = found.reading, found.end
        each = _SETTINGS.match(self.classes, at) or _BASELINES.match(self.classes, at)
        end = each.end() if each else at
        if each is None and _RESPECTIVELY.match(self.classes, at):
            before = self.classes[: found.start]
            if len(_PAIR.findall(before)) == 1:  # with two lists, which is it?
                each = _EACH_BEFORE.search(self.classes, 0, found.start)
        names = [t for t in self._at(each, "each") if t.kind in NOUN + ACRONYM] if each else []
        if each is None or len(names) != count:
            return None
        own = self._clean(names[place])
        if each.re is _BASELINES:
            return replace(reading, baseline=own), end
        if each.re is _EACH_BEFORE and not each["place"]:
            return replace(reading, subject=own), end
        if each.re is _SETTINGS and reading.baseline is None:
            reading = replace(reading, baseline=self._shown(each, "baseline"))
        return replace(reading, setting=own), end

    def _first_setting(self) -> Phrase | None:
        """The one that a sentence begins with: "On COCO, …"."""
        first = _FIRST_SETTING.match(self.classes)
        return self._shown(first, "setting") if first else None

    def _beaten(self, found: "_Found") -> Phrase | None:
        """What is outperformed in the same clause; a level is a level, whatever it beats."""
        if found.reading.relation == "level":
            return None
        for beaten in _BEATEN.finditer(self.classes, 0, found.end):
            if not re.search("[x(h]", self.classes[beaten.end() : found.start]):
                return self._shown(beaten, "baseline")
        return None

    def _subject(self, found: "_Found") -> Phrase | None:
        """Whose number it is: the subject of the nearest verb before it, in the same clause."""
        named = list(_SUBJECT.finditer(self.classes, 0, found.start + 1))
        if not named or _ANOTHER.search(self.classes, named[-1].end(), found.start):
            return None
        return self._shown(named[-1], "subject")

    def _is_plausible(self, index: int, reading: Reading) -> bool:
        """Whether relation and unit go together: a latency is no 36 %, a level no factor."""
        expression = self._reported[index]
        words = self._words(reading.metric) if reading.metric else reading.kind
        if expression.unit == "x" and reading.relation != "ratio":
            return False
        if reading.relation == "level":
            is_share = expression.unit == "%" and _PHYSICAL.search(words)
            return not (is_share or expression.is_change)
        return True

    def _at(self, match: re.Match[str], group: str) -> list[Token]:
        parts = self._tokens[slice(*match.span(group))]
        return [token for token in parts if token.kind not in ",&/"]

    def _shown(self, match: re.Match[str], group: str) -> Phrase | None:
        first, last = match.span(group)
        if first < 0:
            return None
        return self._clean(Token(NOUN, self._tokens[first].start, self._tokens[last - 1].end))

    def _clean(self, token: Token) -> Phrase | None:
        """The words of a phrase that a page may show; None for too many, or for words without
        content."""
        words = self._words(token)
        if words.count(" ") >= MAX_WORDS or _VAGUE.search(words) or _PERIOD.search(words):
            return None
        return Phrase(token.start, token.end)

    def _words(self, part: Token | Phrase) -> str:
        return self._text[part.start : part.end]


@dataclass(frozen=True)
class _Found:
    """A reading and the classes `start:end` that it was read from."""

    reading: Reading
    start: int
    end: int
