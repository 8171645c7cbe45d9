"""Users' own data, checked before any work: LLaVA's conversations, VQA's questions, captions."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError
from ..kit.folders import read_json, refuse, unreadable
from .generate import ask
from .stream import IGNORE, Prompt

# Names of the speakers in other programs' records; a system's turn is no example.
ROLES = {"human": "human", "user": "human", "gpt": "gpt", "assistant": "gpt", "model": "gpt"}
IMAGE = "<image>"  # stands for the picture, whose place in the prompt is our own to choose


@dataclass(frozen=True)
class Example:
    """A question about an image, the conversation before it, and the answers that are right."""

    image: Path
    question: str
    answers: tuple[str, ...]
    before: str = ""


def instruct(folder: Path, *, skip: bool = False) -> tuple[list[Example], list[str]]:
    """Read conversations in LLaVA's format: every `*.json` and `*.jsonl` file of a folder.

    Images lie below it.

    A file is a list of records `{"image": "a.jpg", "conversations": [{"from": "human", "value":
    "<image>\\nWhat?"}, {"from": "gpt", "value": "A cat."}]}`; each answer is an example. Records
    without an image teach nothing about images and are left out.

    Args:
        folder: of the data.
        skip: leave out records that cannot be used, instead of an error.

    Returns:
        examples, and the records that were left out, with reasons.

    Raises:
        InputError: for a folder without conversations; without `skip` also for malformed records,
            and images that do not exist or cannot be read.
    """
    examples: list[Example] = []
    faults: list[str] = []
    look = cache(unreadable)  # an image has several records
    for name, record in _records(folder):
        image, turns = _image_and_turns(record)
        if image is None:
            why = "no image"
        elif isinstance(image, list):
            why = f"{len(image)} images, and an example has one"
        elif not isinstance(image, str) or not isinstance(turns, list):
            why = "no record with image and conversations"
        elif not (why := look(folder / image)):
            try:
                examples += _turns(folder / image, turns)
            except (AttributeError, KeyError, TypeError):
                why = "turns that are not human, gpt (or user, assistant) in turn, with values"
        faults += [f"{name}: {why}"] if why else []
    _refuse(folder, examples, [] if skip else [f for f in faults if not f.endswith(": no image")])
    return examples, faults


def _image_and_turns(record: Any) -> tuple[Any, Any]:
    """The image of a record, one of a list being itself, and its turns, by any of their names."""
    if not isinstance(record, dict):
        return 0, None
    image = record.get("image", record.get("images"))
    if isinstance(image, list) and len(image) < 2:
        image = image[0] if image else None
    return image, record.get("conversations", record.get("messages"))


def _records(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every record of every JSON file, by file and number."""
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is no folder; give one with *.json and images")
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]):
        records = read_json(path)
        for i, record in enumerate(records if isinstance(records, list) else []):
            yield f"{path.name}[{i}]", record


def _turns(path: Path, turns: Sequence[Any]) -> list[Example]:
    messages = [_message(turn) for turn in turns]
    messages = [(role, value) for role, value in messages if role != "system"]
    before, examples = "", []
    for (human, question), (gpt, answer) in zip(messages[::2], messages[1::2], strict=False):
        if (ROLES[human], ROLES[gpt]) != ("human", "gpt"):
            raise KeyError("from")
        examples.append(Example(path, question, (answer,), before))
        before += f"{question} {answer}\n"
    return examples


def _message(turn: Any) -> tuple[str, str]:
    """The speaker and the text of a turn; of OpenAI's parts the texts."""
    value = turn["value"] if "value" in turn else turn["content"]
    if isinstance(value, list):
        value = "\n".join(part["text"] for part in value if part.get("type") == "text")
    role = turn["from"] if "from" in turn else turn["role"]
    return role.lower(), value.replace(IMAGE, "").strip()


def _refuse(folder: Path, examples: Sequence[Example], faults: Sequence[str]) -> None:
    refuse(faults, f"records of {folder.name}")
    if not examples:
        raise InputError(
            f"{folder.name} holds no example: a *.json or *.jsonl with records of image and "
            "conversations, as LLaVA's instruction data has them, questions.json with "
            f"annotations.json, or {CAPTIONS}"
        )


Asked = tuple[str, Path | None, str, tuple[str, ...]]  # its name, image, question, answers
CAPTIONS = "captions.json"
# The prompt of lmms-eval for COCO's images.
CAPTION = "Provide a one-sentence caption for the provided image."


def vqa(folder: Path, *, skip: bool = False) -> tuple[list[Example], list[str]]:
    """Questions in the format of VQA v2: `questions.json`, `annotations.json`, images below.

    A question names its image by `image`, or by `image_id` as twelve digits in any `.jpg`.

    Returns:
        examples, and the records that were left out, with reasons.

    Raises:
        InputError: as `instruct`; also for questions without an answer.
    """
    questions = read_json(folder / "questions.json")
    annotations = read_json(folder / "annotations.json")
    images = {path.stem[-12:]: path for path in _photographs(folder)}

    def image(record: Any) -> Path | None:
        number = str(record.get("image_id", "")).zfill(12)
        return folder / str(record["image"]) if "image" in record else images.get(number)

    try:
        answers = {
            record["question_id"]: tuple(str(answer["answer"]) for answer in record["answers"])
            for record in annotations["annotations"]
        }
        asked = [
            (
                f"question {record.get('question_id')}",
                image(record),
                str(record["question"]).replace(IMAGE, ""),
                answers.get(record.get("question_id"), ()),
            )
            for record in questions["questions"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{folder.name}: not in the format of VQA v2: {error} fails") from error
    return _examples(folder, asked, "no answer stands in annotations.json", skip=skip)


def captions(folder: Path, *, skip: bool = False) -> tuple[list[Example], list[str]]:
    """Images with their captions in the format of COCO: `captions.json`, images anywhere below.

    Returns:
        examples, and the records that were left out, with reasons.

    Raises:
        InputError: as `instruct`; also for images without a caption.
    """
    listed, texts = read_json(folder / CAPTIONS), dict[Any, tuple[str, ...]]()
    images = {path.name: path for path in _photographs(folder)}
    try:
        for record in listed["annotations"]:
            number = record["image_id"]
            texts[number] = (*texts.get(number, ()), str(record["caption"]))
        asked = [
            (
                f"image {record['id']}",
                images.get(record["file_name"]),
                CAPTION,
                texts.get(record["id"], ()),
            )
            for record in listed["images"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{CAPTIONS}: not in the format of COCO: {error} fails") from error
    return _examples(folder, asked, f"no caption stands in {CAPTIONS}", skip=skip)


def _examples(
    folder: Path, asked: Sequence[Asked], unanswered: str, *, skip: bool
) -> tuple[list[Example], list[str]]:
    """The examples that can be used, and the others with reasons."""
    look = cache(unreadable)
    examples: list[Example] = []
    faults: list[str] = []
    for name, path, question, answers in asked:
        why = look(path) if path else "its image is not there"
        why = why if answers else unanswered
        if why or path is None:
            faults.append(f"{name}: {why}")
        else:
            examples.append(Example(path, question, answers))
    _refuse(folder, examples, [] if skip else faults)
    return examples, faults


def _photographs(folder: Path) -> Iterator[Path]:
    """Every `.jpg` below a folder, through links, which image folders often are; each folder once.

    A link may lead back to where it stands.
    """
    been = set()
    for where, inner, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(where)) in been:
            inner.clear()
            continue
        been.add(real)
        yield from (Path(where) / name for name in names if name.endswith(".jpg"))


def batches(
    llava: Any, processor: Any, examples: Sequence[Example], rows: int, seed: int
) -> Callable[[int], Prompt]:
    """Batches of a training: which examples a step takes depends on seed and step alone."""

    def draw(number: int) -> Prompt:
        generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + number)
        picked = torch.randint(len(examples), (rows,), generator=generator).tolist()
        return supervised(llava, processor, [examples[i] for i in picked])

    return draw


def supervised(llava: Any, processor: Any, examples: Sequence[Example]) -> Prompt:
    """Questions with their first answers as targets, padded on the left.

    Choices look at the question; each place that is followed by a token of the answer has it as
    its target.
    """
    plain = question_of(llava, processor, examples)
    tokenizer = processor.tokenizer
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    answers = [tokenizer.encode(e.answers[0], add_special_tokens=False) + end for e in examples]
    rows = zip(plain.ids, plain.real(), answers, strict=True)
    ids = [torch.cat((row[real], row.new_tensor(answer))) for row, real, answer in rows]
    empty = tokenizer.pad_token_id
    whole = pad_sequence(ids, batch_first=True, padding_value=empty, padding_side="left")
    # How many tokens follow a place says what it is, since all rows end together.
    follow = torch.arange(whole.shape[1], device=whole.device).flip(0)  # (T,)
    mask = follow < whole.new_tensor([[len(row)] for row in ids])  # (B, T)
    size = whole.new_tensor([[len(answer)] for answer in answers])  # (B, 1)
    targets = whole.roll(-1, 1).masked_fill((follow == 0) | (follow > size), IGNORE)
    return Prompt(whole, plain.pixels, mask, mask & (follow >= size), targets)


def question_of(llava: Any, processor: Any, examples: Sequence[Example]) -> Prompt:
    """Questions alone, as they are answered."""
    images = [Image.open(e.image).convert("RGB") for e in examples]
    return ask(llava, processor, [e.before + e.question for e in examples], images)
