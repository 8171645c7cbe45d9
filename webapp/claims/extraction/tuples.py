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
from webapp.core.tables import table

from .expressions import Expression
from .factors import VERBS
from .tokens import ACRONYM, METRIC, NOUN, NUMBER, TextToken, tokens, without_edges
from .vocabulary import KINDS, one_of

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

    metric: Phrase | None  # None where the sentence names none: "outperforms BERT by 3 %"
    relation: Relation
    direction: Direction
    subject: Phrase | None = None
    baseline: Phrase | None = None
    setting: Phrase | None = None
    kind: str = ""  # the metric where only the unit names it: "frame rate"


def _form(pattern: str) -> re.Pattern[str]:
    """A form of tuples.toml with its pieces."""
    for name, piece in _TABLE["pieces"].items():
        pattern = pattern.replace(name, piece)
    return re.compile(pattern)


def _phrase(name: str) -> re.Pattern[str]:
    """What finds any of the words that tuples.toml calls so."""
    return re.compile(one_of(_TABLE["phrases"][name]))


_TABLE = table(__file__, "tuples.toml")
_GRAMMAR = tuple((form, _form(pattern)) for form, pattern in _TABLE["forms"])
_UNNAMED = tuple(map(_form, _TABLE["unnamed"]))
_BETTER = re.compile(r"improv|enhanc|boost|gain|better|outperform|surpass|exceed|beat|advantage")
_WORSE = re.compile(r"degrad|worse")
_COMPARATIVES = (" higher", " lower", " faster", " slower", " better", " worse")
_NOT_LEVEL = (*_COMPARATIVES, " down to ", " of ")  # "an accuracy of 99 % of the dense model's"
_AMOUNTS = SIZES | TIMES | {"j", "mj", "kj", "wh", "kwh"}
_ADJECTIVE = _phrase("adjective")
_LESS = re.compile(r"lower|slower|fewer|smaller|less|cheaper|shorter|hal[fv]")
_COORDINATED = re.compile(r"[NAM](?:,?&|/)$")
# What may follow a number and its metric: where, and over what.
_ALSO = r"(?P<also>(?:,[NA])*,?&[NA](?=[.,)xh]|$))?"
_WHERE = (
    rf"[pi](?P<setting>[NA](?:o[NA])?{_ALSO})(?!(?:,[NA])*,?&[NA](?![VUDBKgle])|(?:,[NA])+,?&x)"
)
_AFTER = re.compile(
    rf"(?:{_WHERE}|v(?P<baseline>[NAM](?:o[NA])?)(?!,?&[NAM]|,[NA],))(?=[,&)xyhvpiwr#.]|$)"
)
_EACH = r"(?:[NM][=:])?(?P<each>[NA](?:[,&/]{1,2}[NA])+)(?=[.,;)r(]|x(?![VUDBK])|$)"
_SETTINGS = re.compile(rf"(?:v(?P<baseline>[NAM](?:o[NA])?))?[pif]{_EACH}")
_BASELINES = re.compile(rf"v{_EACH}")
_RESPECTIVELY, _PAIR = re.compile(r",?r"), re.compile(r"[NA],?&[NA]")
_EACH_BEATEN = re.compile(r"B(?P<each>[NA](?:,[NA])*,?&[NA])(?=i[MNA]b|b)")
_EACH_BEFORE = re.compile(
    r"(?P<place>[pi])?(?P<each>[NA](?:,[NA])*,?&[NA])(?(place)(?=[,V])|(?=V))"
)
_FIRST_SETTING = re.compile(r"^[pi](?P<setting>[NA](?:o[NA])?(?:(?:,[NA])*,?&[NA])?),")
_NEXT_PLACE = re.compile(r"[x,&][pi][NA],")
_BEATEN = re.compile(r"B(?P<baseline>[NA])(?!&|,[NA])")
_SUBJECT = re.compile(r"(?:^|[yh,:])(?P<subject>[NA])(?=[VUDBK]|e#)")
_ANOTHER = re.compile(
    r"[yh]|w[^#]*w|[x,:]&?[NA]|w#?[NA][#VUDBK]|&[NA][VUDBK]"
)  # a clause whose subject may be another
_THAN = re.compile(r"[(,]?v[NA]?")
_AGAIN = re.compile(r"[,&]{1,2}b?")
_AGAIN_OF = re.compile(r"[,&]{1,2}(?P<m>[MN])b?")
_ALSO_BEATS = re.compile(r"(?:[pi][NA])?[,&x]{1,2}B(?P<baseline>[NA])b")
_ALSO_GAINS = re.compile(r"(?:[pi][NA])?[,&]{1,2}N?"), re.compile(r"N?gv(?P<baseline>[NAM])")
_NEXT_SETTING, _NEXT_METRIC = re.compile(r"[pif][NA]"), re.compile(r"[iop](?P<m>[MN])")
MAX_SENTENCE = 2000  # characters; what is longer is no sentence, and its forms are not looked for
MAX_WORDS = 9  # of a phrase that is shown
_VAGUE = _phrase("vague")
_VAGUE_END = re.compile(rf"(?:^|\s){one_of(_TABLE['phrases']['vague at the end'])}$")
_NO_SUBJECT = _phrase("no subject")
_NAME_GOES_ON = re.compile(r" (?:of (?:the )?)?[A-Z]")  # "Cost of Transport"
_LIMIT = re.compile(r"limit|bound|budget|threshold|capacit|expect")
_MODEL_SIZE, _SIZE = (
    re.compile(r"\d[bm]$"),
    re.compile(r"size|resolution|length|window|scale|condition|level|ratio|budget|threshold"),
)
_COUNT = _phrase("counted")
_AT_LEVEL = re.compile(r"\($|(?<!by )(?<!of )(?:below|above|under|over|beyond) $")
_BEATS_IN = re.compile(r"B[^xh,;(V]*\([^()v]*$")
_NEGATED = re.compile(r"\b(?:no|none|neither|nor|never|fail(?:s|ed)? to)\b[^,;:()]*$")
_REGAINED = re.compile(r"\b(?:recover|los|sacrific|clos)\w* (?:[a-z]+ ){0,2}$")
_BOUND = re.compile(rf" {one_of(_TABLE['phrases']['bound'])}\b")
_NO_METRIC = {"score", "scores", "average score", "average scores", "rate", "rates"}
_BARE = {"score", "scores", "accuracy", "accuracies"}  # "AIME24 & 25 scores of 54 and 46 %"
_PLACES = re.compile(r"(?:tasks?|datasets?|benchmarks?|settings|scenarios|years?)$")
_VAGUE_METRIC = re.compile(r"^$|performance$")
_POINTS_OF = re.compile(r"\d (?P<metric>[a-z](?!\w+(?:ed|ute|ive) )[\w@]+) points?$")
_PERIOD = re.compile(r" \+ |(?:years?|months?|days?|hours?|epochs?|steps?|time|runs|seeds)$")
_EMPTY_METRIC = _phrase("empty metric")
_QUALITY = _phrase("quality")
_AMOUNT = _phrase("amount")
_NO_NAME = _phrase("no name")
_PHYSICAL = _phrase("physical")


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
        self._kinds()
        self._repeated()
        self._unnamed()
        self._repeated()
        worded = {index: self._with_words(index, found) for index, found in self._found.items()}
        sure = {
            index: reading
            for index, reading in worded.items()
            if reading and index not in unsure and self._is_plausible(index, reading)
        }
        return self._compared(sure)

    def _of_form(self, form: str, match: re.Match[str]) -> Iterator[tuple[int, Reading]]:
        groups = match.groupdict()
        numbers = self._at(match, "n")
        names = "m" if groups.get("m") else "m2"
        metrics = [t for t in self._at(match, names) if t.kind in METRIC + ACRONYM + NOUN + "sc"]
        if len(metrics) > len(numbers):
            is_behind = names == "m2" and match.start("n") < match.start("m2")
            if is_behind or not any(metric.kind == METRIC for metric in metrics):
                return  # "a 3 % gain in F1 and AUC" is of both; "MBPP, and HumanEval > 80 %"
            metrics = metrics[-len(numbers) :]  # "recall for PointNav and SPL of 67 %"
        start = match.start(names)
        is_bare = len(metrics) > 1 and any(self._words(m) in _BARE for m in metrics)
        # "Pearson and Spearman correlations of 0.92 and 0.90"
        is_coordinated = _COORDINATED.search(self.classes[max(0, start - 2) : start])
        if len(metrics) not in {1, len(numbers)} or is_bare or is_coordinated:
            return
        if len(metrics) == 1:  # "85 FPS and 92 % mIoU": only the number beside it
            is_behind = match.start("n") < match.start(names)
            beside = self._kind(numbers[-1 if is_behind else 0])
            numbers = [number for number in numbers if self._kind(number) == beside]
        how = groups.get("how") or ""
        word = self._words(self._tokens[match.start("how")]) if how else ""
        setting = self._shown(match, "setting") if groups.get("setting") else None
        baseline = self._shown(match, "baseline") if groups.get("baseline") else None
        for at, token in enumerate(numbers):
            metric = metrics[at] if len(metrics) > 1 else metrics[0]
            is_cut = metric.kind == NOUN and self._text.startswith(" of ", metric.end)
            if is_cut and not _QUALITY.search(self._words(metric)):
                continue  # "2x higher figures of merit"
            relation = self._relation(form, how, word, self._reported[token.number], metric)
            if relation:
                start = without_edges(self._text, metric.start, metric.end)
                if how == "c" and word.endswith(("faster", "slower")):
                    start = self._tokens[match.start("how")].start  # "faster inference"
                name = Phrase(start, metric.end)
                yield token.number, Reading(name, *relation, None, baseline, setting)

    def _kind(self, number: TextToken) -> tuple[str, bool]:
        """What numbers of one list share: the unit, and whether they are changes."""
        expression = self._reported[number.number]
        return expression.unit, expression.is_change

    def _relation(
        self, form: str, how: str, word: str, expression: Expression, metric: TextToken
    ) -> tuple[Relation, Direction] | None:
        """Relation and direction that a form and its word say; None where they say none."""
        if form in {"share", "within"}:
            return ("share" if form == "share" else "within"), ""
        checks = {"named": self._is_named, "bounded": self._is_bounded, "beside": self._is_noun}
        if form in checks and not checks[form](metric, expression):
            return None
        if form in {"level", "amount of", "gained", "named", "bounded"}:
            is_gain = form == "gained" and word.startswith("gain")  # "gaining 18 % in accuracy"
            return ("gain", "better") if is_gain else self._level(form, expression)
        is_checked = form in {"amount", "from to", "signed"}
        is_amount = not is_checked or self._is_amount(metric, how, word)
        is_amount &= not self._text.startswith(" down to ", expression.end)  # "10 h down to 4"
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
        if _REGAINED.search(self._text, max(0, expression.start - 40), expression.start):
            return None  # "recovers 0.7 % accuracy"
        ahead = _NOT_LEVEL if form in {"level", "bounded"} else _COMPARATIVES
        if self._text.startswith(ahead, expression.end):
            return None  # "an AP that is 42 % higher"
        sign = self._text[expression.numbers[0].start]
        if sign in "+-" or expression.unit in {"pp", "points"}:
            return ("gain", "more") if sign != "-" else None
        return "level", ""

    def _direction(
        self, form: str, how: str, word: str, expression: Expression, metric: TextToken
    ) -> Direction | None:
        name = self._words(metric)
        if how == "c" and (name.startswith("per ") or name == "often"):
            return None  # "150x faster per forward step", "4 times more often"
        is_quality = how == "c" and word not in {"faster", "slower"} and _ADJECTIVE.search(name)
        if is_quality or word.startswith("accelerat"):
            return None  # "11 % more accurate"; training that is 57 % faster is no more training
        if form == "verb":
            written = self._text[expression.start : expression.end]
            is_verb = written in VERBS and not _EMPTY_METRIC.search(name)
            return ("less" if _LESS.match(written) else "more") if is_verb else None
        if form == "speed":
            is_speed = metric.kind != "c" or name in {"faster", "slower"}
            return ("less" if name == "slower" else "more") if is_speed else None
        if expression.is_change:
            first, last = expression.numbers
            return "more" if last.value > first.value else "less"
        is_sign = self._text[expression.start] in "+-"  # "enhances safety (+32.8 %)"
        # "improves accuracy (0.84 vs 0.83)", "falls below 65 %"
        before = max(0, expression.start - 20), expression.start
        is_aside = how in "UD" and _AT_LEVEL.search(self._text, *before)
        is_silent = form == "from to" or (is_aside and not is_sign)
        return None if is_silent else _said_direction(how, word)

    def _is_amount(self, metric: TextToken, how: str, word: str) -> bool:
        """Whether words that are no known metric name what rises or falls.

        "Reduces explanation size", "a gain in factual correctness"; not "boosts GPT-4", "a gain
        in low-resource settings".
        """
        name = self._folded.cased[metric.start : metric.end]
        is_plain = name.islower() and name.count(" ") < 5 and not re.search(r"\d", name)
        is_word = " " in name or bool(_AMOUNT.search(name))
        is_said = how == "g" or _said_direction(how, word) in {"more", "less"}
        is_said |= bool(_QUALITY.search(name))
        return is_said and is_plain and is_word and not _EMPTY_METRIC.search(name)

    def _is_bounded(self, metric: TextToken, expression: Expression) -> bool:
        """Whether a number limits a level: "F1 scores exceeding 0.8"."""
        before = self.classes[: self._tokens.index(metric)]
        is_change = re.search("[UDgl][^xh(]*$", before)
        return not is_change and bool(_BOUND.match(self._text, metric.end, expression.start))

    def _is_noun(self, metric: TextToken, _: Expression) -> bool:
        """Whether a metric before "90 % less" is no verb: "Heron costs 90 % less"."""
        return not self._words(metric).endswith("costs")

    def _is_named(self, metric: TextToken, expression: Expression) -> bool:
        """Whether words that are no known metric name a level: "achieves 81 % validity"."""
        name = self._folded.cased[metric.start : metric.end]
        if expression.unit not in {"%", ""} or expression.is_change or re.search(r"\d", name):
            return False
        if metric.kind == ACRONYM:
            return name != "SOTA" and not name.endswith("s")
        is_word = " " in name or bool(_AMOUNT.search(name))
        is_word &= name.islower() and name.count(" ") < 3
        return is_word and not (_EMPTY_METRIC.search(name) or _NO_NAME.search(name))

    def _kinds(self) -> None:
        """What a number says by its unit: 42 FPS, "in 1.2 seconds", "4.8 BLEU points"."""
        for at, token in enumerate(self._tokens):
            if token.kind != NUMBER or token.number in self._found:
                continue
            expression = self._reported[token.number]
            written = self._text[expression.start : expression.end]
            before = self.classes[at - 1 : at]
            reading = None
            if kind := KINDS.get(expression.unit, ""):
                reading = Reading(None, "level", "", kind=kind)
            elif expression.unit in TIMES and before and before in "iV":
                reading = Reading(None, "level", "", kind="time")
            elif (named := _POINTS_OF.search(written)) and re.search(
                "[gUB][^#]*$", self.classes[:at]
            ):
                first, last = named.span("metric")
                metric = Phrase(expression.start + first, expression.start + last)
                reading = Reading(metric, "gain", "better")
            if reading:
                self._found[token.number] = _Found(reading, at, at + 1)

    def _unnamed(self) -> None:
        """What is so much better than something, or somewhere, whatever it is measured by."""
        for pattern in _UNNAMED:
            for match in pattern.finditer(self.classes):
                word = self._words(self._tokens[match.start("how")])
                groups = match.groupdict()
                first = self._at(match, "n")[0].start
                if self._text[first - 1] == "(" and self._text[first] != "+":
                    continue  # "gains over BERT (58.3 %)"
                is_limit = word.startswith("exceed") and _LIMIT.search(self._text_of(match))
                if is_limit or not _BETTER.search(word):
                    continue
                for token in self._at(match, "n"):
                    relation: Relation = "gain"
                    if self._reported[token.number].unit == "x":
                        relation = "ratio"
                    baseline = self._shown(match, "baseline") if groups.get("baseline") else None
                    setting = self._shown(match, "setting") if groups.get("setting") else None
                    reading = Reading(None, relation, "better", None, baseline, setting)
                    self._found.setdefault(
                        token.number, _Found(reading, match.start(), match.end())
                    )

    def _text_of(self, match: re.Match[str]) -> str:
        """The words of a match."""
        first, last = self._tokens[match.start()], self._tokens[match.end() - 1]
        return self._text[first.start : last.end]

    def _compared(self, sure: dict[int, Reading]) -> dict[int, Reading]:
        """ "71 % accuracy compared to 68 %": the second is a level of the same, of another."""
        last: TextToken | None = None
        for token in self._tokens:
            if token.kind != NUMBER:
                continue
            if last and token.number not in sure and (reading := sure.get(last.number)):
                between = "".join(
                    t.kind for t in self._tokens if last.end <= t.start and t.end <= token.start
                )
                units = {self._reported[t.number].unit for t in (last, token)}
                is_level = reading.relation == "level" and len(units) == 1
                if is_level and _THAN.fullmatch(between.removeprefix("M")):
                    sure[token.number] = Reading(reading.metric, "level", "", kind=reading.kind)
            last = token
        return sure

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
                    is_known = is_alike and named.kind != NOUN
                    if also and (is_known or joint.endswith("b")):
                        self._found[index] = _Found(also, at, at + 1)
                elif (
                    is_alike
                    and after
                    and _AGAIN.fullmatch(joint)
                    and self._is_behind(last, after["m"])
                ):
                    named = self._tokens[after.start("m")]
                    if named.kind == NOUN and last.reading.relation == "level":
                        continue  # "93 % success in pistachio and 80 % in almond"
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
            known = self._found.get(index)
            if last and known and self._is_listed(last, known, self.classes[words_end:at]):
                gain = last.reading  # "by 10 % Dice and 13 % IoU"
                also = replace(known.reading, relation=gain.relation, direction=gain.direction)
                self._found[index] = replace(known, reading=also)
            last = self._found.get(index)
            if last:
                unit = self._reported[index].unit
                words_end = self._words_end(max(last.end, at + 1))

    def _is_listed(self, last: "_Found", known: "_Found", joint: str) -> bool:
        """Whether a level is listed with a gain by so much: "by 10 % Dice and 13 % IoU"."""
        is_level = known.reading.relation == "level" and last.reading.relation in {"gain", "loss"}
        is_by = self.classes[last.start : last.end].endswith("b#M")
        return is_level and is_by and _AGAIN.fullmatch(joint) is not None

    def _also(self, reading: Reading, metric: TextToken, index: int) -> Reading | None:
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
        if unit == "x" or last.reading.relation not in {"level", "gain", "loss"}:
            return
        if last.reading.metric is None:
            return
        joint, after = self.classes[last.end : at], _ALSO_GAINS[1].match(self.classes, at + 1)
        beaten = _ALSO_BEATS.fullmatch(self.classes, last.end, at)
        against, end = (beaten, at + 1) if beaten else (after, after.end() if after else at)
        is_alone = not self.classes.startswith(("&#", ",#"), at + 1)
        if against and is_alone and (beaten or _ALSO_GAINS[0].fullmatch(joint)):
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
                return replace(reading, setting=None, baseline=None, subject=None)
            reading, at = told
        is_vague = not reading.kind and _VAGUE_METRIC.search(
            self._words(reading.metric) if reading.metric else ""
        )
        if is_vague and self.classes[at : at + 1] == "i":
            return None  # "a gain of 3 % in factual correctness" is of that
        while after := _AFTER.match(self.classes, at):
            # "on A and B" of several numbers: which of the two?
            if reading.setting is None and not (after["also"] and len(self._reported) > 1):
                setting = self._shown(after, "setting")
                is_cut = self.classes[after.end() :].startswith((",N", ",A"))
                if setting and is_cut and _ADJECTIVE.search(self._words(setting)):
                    setting = None  # "under heterogeneous, real workloads"
                reading = replace(reading, setting=setting)
            if after["setting"] and self._is_word(after.end(), "v"):
                return replace(reading, setting=None)  # "for Alzheimer's disease versus normal"
            against = self._shown(after, "baseline")
            # "90 % success against a filter"
            is_target = reading.relation == "level" and self._is_word(at, "against")
            is_target |= bool(against and _PLACES.search(self._words(against)))
            if reading.baseline is None and against and not is_target:
                reading = replace(reading, baseline=against)
            at = after.end()
        if self.classes[: self._place(index)].endswith("v"):
            return replace(reading, baseline=None, subject=None)  # "0.28 vs 0.42 LPIPS"
        return replace(
            reading,
            setting=reading.setting or self._first_setting(found),
            baseline=reading.baseline or self._beaten(found),
            subject=reading.subject or self._subject(found),
        )

    def _is_word(self, at: int, beginning: str) -> bool:
        """Whether the token at a place of the classes is one of comparison that begins so."""
        is_one = self.classes[at : at + 1] == "v"
        return is_one and self._text.startswith(beginning, self._tokens[at].start)

    def _place(self, index: int) -> int:
        """Where the token of a reported number stands."""
        return next(at for at, token in enumerate(self._tokens) if token.number == index)

    def _told_apart(self, found: "_Found", place: int, count: int) -> tuple[Reading, int] | None:
        """The tuple of a number of a list by what it alone has, and where those words end.

        "71 and 73 % on A and B", "over A and B"; "A and B reach 71 and 73 %, respectively".
        """
        reading, at = found.reading, found.end
        each = _SETTINGS.match(self.classes, at) or _BASELINES.match(self.classes, at)
        end = each.end() if each else at
        if each is None and _RESPECTIVELY.match(self.classes, at):
            before = self.classes[: found.start]
            each = _EACH_BEATEN.match(self.classes, found.start)
            if each is None and len(_PAIR.findall(before)) == 1:  # with two lists, which is it?
                each = _EACH_BEFORE.search(self.classes, 0, found.start)
        names = [t for t in self._at(each, "each") if t.kind in NOUN + ACRONYM] if each else []
        if each is None or len(names) != count:
            return None
        own = self._clean(names[place])
        if any(self._words(name).isdigit() for name in names):
            return None  # "for tasks 1, 2 and 3"
        if each.re is _BASELINES or each.re is _EACH_BEATEN:
            return replace(reading, baseline=own), end
        if each.re is _EACH_BEFORE and not each["place"]:
            return replace(reading, subject=own), end
        if each.re is _SETTINGS and reading.baseline is None:
            reading = replace(reading, baseline=self._shown(each, "baseline"))
        return replace(reading, setting=own), end

    def _first_setting(self, found: "_Found") -> Phrase | None:
        """The one that a sentence begins with: "On COCO, …", unless its clauses have their own."""
        first = _FIRST_SETTING.match(self.classes)
        is_one = first and not _NEXT_PLACE.search(self.classes, first.end(), found.start)
        is_shared = "r" in self.classes[found.end :]  # "…, respectively"
        return self._shown(first, "setting") if first and is_one and not is_shared else None

    def _beaten(self, found: "_Found") -> Phrase | None:
        """What is outperformed in the same clause; a level is a level, whatever it beats."""
        if found.reading.relation == "level":
            return None
        for beaten in _BEATEN.finditer(self.classes, 0, found.end):
            if not re.search("[x(h]|i[MNA]&|&[VUDBK]", self.classes[beaten.end() : found.start]):
                return self._shown(beaten, "baseline")
        return None

    def _subject(self, found: "_Found") -> Phrase | None:
        """Whose number it is: the subject of the nearest verb before it, in the same clause."""
        named = list(_SUBJECT.finditer(self.classes, 0, found.start + 1))
        if not named or _ANOTHER.search(self.classes, named[-1].end(), found.start + 1):
            return None
        subject = self._shown(named[-1], "subject")
        return None if subject and _NO_SUBJECT.search(self._words(subject)) else subject

    def _is_plausible(self, index: int, reading: Reading) -> bool:
        """Whether metric, relation, unit and setting of a number go together."""
        expression = self._reported[index]
        words = self._words(reading.metric) if reading.metric else reading.kind
        written = self._text[: expression.start]
        return not (
            (expression.unit == "x" and reading.relation != "ratio")
            or (words in _NO_METRIC and not reading.setting)  # a score of what?
            or (reading.metric and self._is_cut(reading.metric))
            or (written.endswith("from ") and not expression.is_change)  # "from 0.49 to over 0.8"
            or (self._text[expression.start] == "+" and "correlation" in words)
            or _MODEL_SIZE.search(words)
            or (reading.setting and self._is_size(reading, expression))
            or (reading.relation == "level" and not self._is_level(index, words))
        )

    def _is_level(self, index: int, words: str) -> bool:
        """Whether a number is a level of what `words` say: a latency is no 36 %, a level no 2x."""
        expression, at = self._reported[index], self._place(index)
        before = max(self._tokens[0].start, expression.start - 200), expression.start
        is_compared = self.classes[at + 1 : at + 2] == "v"
        is_percent = expression.unit == "%"
        return not (
            expression.is_change
            or (is_percent and (_PHYSICAL.search(words) or expression.numbers[-1].value > 100))
            or (not expression.unit and _COUNT.match(self._text, expression.start))
            or _NEGATED.search(self._text, *before)  # "none of them reaches 35 % accuracy"
            # "surpasses it in both accuracy (up to 45 %) and efficiency"
            or (_BEATS_IN.search(self.classes[:at]) and not is_compared)
        )

    def _is_cut(self, metric: Phrase) -> bool:
        """Whether a name goes on around a metric: "I/O time", "Cost of Transport"."""
        if "/" in self._text[metric.start - 1 : metric.end + 1]:
            return True  # "Top-1/NDCG of 0.35", too: of which?
        last = self._folded.cased[metric.start : metric.end].split(" ")[-1]
        return last.istitle() and bool(_NAME_GOES_ON.match(self._folded.cased, metric.end))

    def _is_size(self, reading: Reading, expression: Expression) -> bool:
        """Whether a number is that of its setting: "error at smaller voxel sizes (0.5 m)"."""
        setting = reading.setting
        between = self._text[setting.end : expression.start] if setting else ""
        return bool(between.strip() == "(" and setting and _SIZE.search(self._words(setting)))

    def _at(self, match: re.Match[str], group: str) -> list[TextToken]:
        parts = self._tokens[slice(*match.span(group))]
        return [token for token in parts if token.kind not in ",&/"]

    def _shown(self, match: re.Match[str], group: str) -> Phrase | None:
        first, last = match.span(group)
        if first < 0:
            return None
        return self._clean(TextToken(NOUN, self._tokens[first].start, self._tokens[last - 1].end))

    def _clean(self, token: TextToken) -> Phrase | None:
        """The words of a phrase that a page may show; None for too many, or for words without
        content."""
        words = self._words(token)
        if words.count(" ") >= MAX_WORDS or any(
            p.search(words) for p in (_VAGUE, _VAGUE_END, _PERIOD)
        ):
            return None
        return Phrase(token.start, token.end)

    def _words(self, part: TextToken | Phrase) -> str:
        return self._text[part.start : part.end]


@dataclass(frozen=True)
class _Found:
    """A reading and the classes `start:end` that it was read from."""

    reading: Reading
    start: int
    end: int
