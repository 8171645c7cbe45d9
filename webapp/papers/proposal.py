"""The sentence of an abstract that states the paper's proposal or subject."""

import re
from functools import lru_cache

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\$])")
# Also between two sentences without a blank, "of models.To address this", but not in "vs. GPT-4".
_SENTENCE_END = re.compile(
    rf"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?:{SENTENCE_END.pattern})"
    r"|(?<=[a-z]{3}\.)(?=[A-Z][a-z]+ )"
)
_OWN = (
    r"\b(?:we|our (?:work|paper|study|approach|method)|this (?:paper|work|study|article|report))\b"
)
_DOES = (
    r"\b(?:propos|introduc|present|develop|design|show|stud(?:y|ies)|investigat|examin|find|"
    r"demonstrat|provid|address|describ|formulat|explor|analy[sz]|revisit|build|deriv|offer|"
    r"releas|construct|prov(?:e|ing)|establish|report|name|leverag|combin|evaluat|benchmark)"
)
_PROPOSES = re.compile(
    rf"{_OWN}[^.]{{0,60}}?{_DOES}|\b(?:is|are) (?:proposed|introduced|presented)\b", re.IGNORECASE
)
# The authors up to their verb. What follows "that" is often the work of others.
_PAPER = (
    r"(?:this|the present) (?:[a-z]+ )?(?:paper|work|study|article|report|survey|review|thesis)\b"
)
_AUTHORS = (
    rf"(?:\b(?:we|the (?:paper|authors?))\b|\b{_PAPER}"
    r"|\bour (?:[a-z]+ )?(?:paper|work|study|approach|method|framework|model|system)\b)"
    r"(?:\W+(?!(?:that|which|how|whether|why|what|when|where)\b)\w+){0,8}?\W+"
)
_MADE = re.compile(
    _AUTHORS + r"(?<!the )(?<!our )(?:propos(?:e|es|ed|ing)|introduc(?:e|es|ed|ing)"
    r"|present(?:s|ed|ing)?|develop(?:s|ed|ing)?|devis(?:e|es|ed|ing)|releas(?:e|es|ed|ing)"
    r"|formulat(?:e|es|ed|ing)|describ(?:e|es|ed|ing)|deriv(?:e|es|ed|ing)|sets? (?:up|out))\b",
    re.IGNORECASE,
)
_WORKED = re.compile(
    _AUTHORS + r"(?:show|stud(?:y|ies)|investigat|examin|find|demonstrat|provid|address|explor"
    r"|analy[sz]|revisit|offer|prov(?:e|ing)|establish|report|leverag|combin|evaluat|benchmark"
    r"|compar|measur|quantif|extend|appl(?:y|ies)|adapt|train|tackl|identif|argu|ask|look|turn"
    r"|treat|take|fit|use|writ|characteri[sz]|review|survey|audit|mount|put|conduct|design|buil[dt]"
    r"|creat|construct|implement|call|name)"
    rf"|^(?:in )?{_PAPER}|\b(?:is|are) (?:proposed|introduced|presented)\b"
    r"|^(?:Its|Our|The proposed|The resulting|This) (?:[a-z-]+ )?"
    r"(?:framework|method|approach|system|algorithm|model) \w+s\b",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"^\W*(?:\w+\W+){0,3}?(?:also|further(?:more)?|additionally|moreover|finally)\b", re.IGNORECASE
)
# A name and its verb: "RoSA routes each head …".
_NAMED = re.compile(
    r"^(?:The )?([A-Z][\w$-]*(?: [A-Z][\w$-]*)*)(?: \([^)]{1,30}\))?(?:,[^,]{1,80},)?"
    r"(?: (?:therefore|thus|then|\w+ly))?"
    r" (?!(?:trace|observe|find|show|reveal|prove|demonstrate|exhibit)s\b)\w+s\b"
)
_RESULT = re.compile(
    r"\b(?:outperform|achiev|improv|reduc|surpass|attain|reach|obtain|yield|deliver)(?:es|s|ed)\b"
    r"|\b(?:results?|experiments?|findings?)\b.{0,40}\b(?:show|suggest|demonstrat|reveal)",
    re.IGNORECASE,
)
_LIKE_A_NAME = re.compile(r"[A-Z]\w*[A-Z]|[A-Z]\w*-[A-Z]|\S+ \S+ \S")
# "To address these challenges, we …", "In this paper, we …": the same words in front of any paper.
_RUN_UP = re.compile(
    r"^(?:(?:however|therefore|thus|hence|accordingly|consequently|in response|to this end"
    r"|to th(?:at|ose) end|to do so|for this purpose|here|in light of (?:this|these)[^,]{0,60}"
    r"|(?:motivated|inspired|driven) by (?:this|these|such)[^,]{0,60}"
    r"|(?:based|building) (?:up)?on (?:this|these|such)[^,]{0,60}"
    r"|to (?:address|tackle|overcome|mitigate|resolve|solve|bridge|fill|close|remedy|alleviate"
    r"|handle|meet|answer|explore|investigate) (?:all |both )?"
    r"(?:this|these|those|the above|the aforementioned|such|it\b)[^,]{0,60}"
    r"|in (?:this|the present) (?:[a-z]+ )?"
    r"(?:paper|work|study|article|report|manuscript|contribution)),? )+"
    r"(?=(?:we|our|this|the)\b)",
    re.IGNORECASE,
)

# What a long sentence can do without: why the authors did it.
_REASON = re.compile(
    r"^(?:to|towards?|motivated|inspired|driven|guided|based on|(?:building|drawing) (?:up)?on"
    r"|as (?:such|a result)|while|although|though|unlike|beyond|since|because|despite|given"
    r"|recogni[sz]ing|specifically|in particular|first|finally)\b.{0,200}?,"
    r" (?=(?:we|this (?:paper|work|study|article))\b)",
    re.IGNORECASE,
)
# What follows is not needed to understand what stands before.
_FURTHER_CLAUSE = re.compile(
    r"(?::|;| -{2,3}| [–—]|,(?= (?:which|where|while|whereas|enabling|achieving|resulting|thereby"
    r"|leading|allowing|demonstrating|including|such as|in which|followed by|using|and (?:we|then)"
    r"|\w+ing (?:the|an?|its|their|each|all|both|how|that|only|from|into|with|on|to))\b)"
    r"|\.(?= \(?(?:i|a|1)\))|,?(?= (?:so that|such that|without \w+ing|rather than|instead of)\b)) "
)
# What follows says how, for what or of what kind, after a sentence that is whole without it.
_DETAIL = re.compile(
    r",(?= (?:with|on|when|where|whose)\b)|(?:,|(?<!,))(?<!ly)(?<!ed)"
    r"(?= (?:(?:that|which) (?:\w+ly )?\w+(?:s|ed)|by (?:\w+ly )?\w+ing|for (?:\w+ly )?\w+ing"
    r"|while|through|via|using|without|in (?:which|order to)|based on"
    r"|and \w+(?<!ing) (?:an?|its|how|whether)|(?:built|trained|designed|aimed|tailored|obtained"
    r"|collected|constructed|extracted|derived|developed|characteri[sz]ed)"
    r" (?:on|upon|around|to|for|at|by|through|from)|spanning|covering|encompassing|comprising"
    r"|containing|featuring|combining|integrating|consisting|pairing|unifying)\b)"
)
# A part that ends so goes on.
_GOES_ON = re.compile(
    r"\b(?:and|or|but|not|only|by|of|for|from|in|into|on|at|to|with|via|as|than|so|is|are|that|which|how"
    r"|the|an?|its|their|namely|following(?: [\w-]+){0,3})$",
    re.IGNORECASE,
)
_DASHES = {"--", "---", "–", "—"}
_TWO_LINES = 178  # characters of a row of 1280 pixels
_SAYING, _TELLING = 45, 80  # characters of a clause that says something, and enough
_LOOKED_AT = 2_000  # characters of a sentence; what is longer is none


def proposing_sentence(abstract: str) -> str:
    """Return the first sentence in which the authors say what they do, or ""."""
    return next(filter(_PROPOSES.search, SENTENCE_END.split(abstract)), "")


@lru_cache(4_096)  # every page, feed and mail that shows a paper of these days asks for it
def informative_sentence(abstract: str, title: str = "") -> str:
    """Return the sentence of an abstract that says most plainly what its authors did.

    That is one on what they made, else on what they worked on, else a result, and the first of
    several. Without any it is the second sentence, because the first states common knowledge.
    """
    sentences = _SENTENCE_END.split(abstract.strip())
    ranks: list[int] = []
    for number, sentence in enumerate(sentences):
        ranks.append(_rank(number, sentence, title))
        if ranks[-1] == 0:  # none can be better
            break
    return sentences[ranks.index(min(ranks))]


def _rank(number: int, sentence: str, title: str) -> int:
    """Return how far the sentence with this number is from saying what the authors made."""
    if _MADE.search(sentence):
        return 1 if _ADDS.search(sentence) else 0
    subject = _NAMED.search(sentence)
    is_result = bool(_RESULT.search(sentence))
    is_named = bool(subject and _is_named_in(title, subject[1]))
    if is_named and not is_result:
        return 0
    if _WORKED.search(sentence):
        return 1
    if is_result or is_named or (number and subject and _LIKE_A_NAME.search(subject[1])):
        return 2
    return {1: 3, 0: 4}.get(number, 5)


def _is_named_in(title: str, name: str) -> bool:
    """True if a title introduces a name: before a colon, in brackets or by its initials."""
    introduced = {title, title.partition(":")[0], *re.findall(r"\(([^()]*)\)", title)}
    initials = "".join(re.findall(r"\b[A-Z]", title))
    return name in introduced or (len(name) > 2 and initials.startswith(name))


def what_it_did(abstract: str, title: str = "") -> str:
    """Return that sentence without a run-up that says nothing of this paper."""
    sentence = informative_sentence(abstract, title)
    statement = _RUN_UP.sub("", sentence)
    return statement[:1].upper() + statement[1:]


@lru_cache(4_096)  # a row says it, and its quote asks whether it repeats it
def in_two_lines(statement: str) -> str:
    """Return a statement that is too long for two lines without its reason, or up to the end of
    one of its clauses.
    """
    if _length(statement) <= _TWO_LINES:
        return statement
    without_reason = _REASON.sub("", statement)
    statement = without_reason[:1].upper() + without_reason[1:]
    if _length(statement) <= _TWO_LINES:
        return statement
    clauses = _parts(statement, _FURTHER_CLAUSE)
    short = [clause for clause in clauses if _length(clause) < _TWO_LINES]
    if not short or len(short[-1]) < _TELLING:
        details = _parts(statement, _DETAIL)
        short += [part for part in details if _length(part) < _TWO_LINES]
    best = [*short[-1:], *clauses][:1]  # the longest of two lines, else the shortest
    return f"{best[0]} …" if best else statement


def _parts(statement: str, end: re.Pattern[str]) -> list[str]:
    """Return what stands before each such end, where that is whole.

    Two dashes enclose something; after the first the sentence still lacks its verb.
    """
    parts = [
        statement[: at.start()].removesuffix(", as follows")
        for at in end.finditer(statement, _SAYING, _LOOKED_AT)
        if at[0].strip() not in _DASHES or statement.count(at[0]) == 1
    ]
    return [part for part in parts if _is_closed(part) and not _GOES_ON.search(part[-60:])]


def _length(text: str) -> int:
    """Return how many characters of a text are shown: commands of TeX are not."""
    return len(re.sub(r"\\[a-zA-Z]+|[${}^_\\]", "", text))


def _is_closed(text: str) -> bool:
    """True if a text leaves neither brackets, nor a quotation, nor a formula open."""
    pairs = all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}", "“”"))
    return pairs and text.count("$") % 2 == text.count('"') % 2 == 0
