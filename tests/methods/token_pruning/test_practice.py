"""Train and evaluate on folders such as people have, on a tiny saved checkpoint."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoProcessor

from methods.__main__ import main
from methods.errors import InputError
from methods.token_pruning import data, practice
from methods.token_pruning.llava import load_llava
from methods.token_pruning.scores import vqa_accuracy
from methods.token_pruning.stream import IGNORE
from tests.methods.own_data import call, interrupted
from tests.methods.token_pruning.conftest import picture

CONFIG = """
pruning_layers: [0, 2]
keep_tokens: [6, 3]
pruner_d_internal: 16
loss: attention
pruner_lr: 1e-3
"""

GPT_FIRST = json.dumps([
    {"image": "images/000000000000.jpg", "conversations": [
        {"from": "gpt", "value": "red"}, {"from": "human", "value": "what ?"}
    ]}
])  # fmt: skip


SILENT = json.dumps([
    {"image": "images/000000000000.jpg", "conversations": [
        {"from": "human", "value": None}, {"from": "gpt", "value": "red"}
    ]}
])  # fmt: skip


@pytest.fixture
def folder(tmp_path, saved):
    """A bfloat16 checkpoint, conversations with images, questions with answers."""
    saved(tmp_path / "llava", torch.bfloat16)
    images = tmp_path / "data" / "images"
    images.mkdir(parents=True)
    for number in range(3):
        picture(number).save(images / f"{number:012d}.jpg")
    records = [
        {"id": str(i), "image": f"images/{i:012d}.jpg", "conversations": [
            {"from": "human", "value": "<image>\nwhat colour is the cat ?"},
            {"from": "gpt", "value": "red"},
            {"from": "human", "value": "is this a dog ?"},
            {"from": "gpt", "value": "no ."},
        ]} for i in range(3)
    ]  # fmt: skip
    records.append({"id": "words", "conversations": records[0]["conversations"]})
    (tmp_path / "data" / "chat.json").write_text(json.dumps(records))
    questions = [{"question_id": i, "image_id": i, "question": "what is this ?"} for i in range(3)]
    annotations = [
        {"question_id": i, "answers": [{"answer": w} for w in ("cat", "a cat", "dog")]}
        for i in range(3)
    ]
    (tmp_path / "vqa").mkdir()
    (tmp_path / "vqa" / "questions.json").write_text(json.dumps({"questions": questions}))
    (tmp_path / "vqa" / "annotations.json").write_text(json.dumps({"annotations": annotations}))
    (tmp_path / "vqa" / "images").symlink_to(images)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "out").mkdir()
    return tmp_path


def train(folder: Path, **changes: object) -> int:
    values = {
        "model": folder / "llava", "data": folder / "data", "out": folder / "out",
        "config": folder / "config.yaml", "steps": 4, "rows": 2, "every": 2,
    } | changes  # fmt: skip
    return call("train", "token_pruning", values)


def weights(folder: Path) -> list[torch.Tensor]:
    return list(torch.load(folder / "out" / "pruner.pt")["weights"].values())


def test_train_resume_and_evaluate(folder, capsys, monkeypatch):
    assert train(folder) == 0
    printed = capsys.readouterr().out
    assert "6 examples, 1 left out; loss" in printed
    whole = weights(folder)
    for name in ("pruner.pt", "training.pt"):
        (folder / "out" / name).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(practice, "train_pruner", interrupted(practice.train_pruner, 3))
        assert train(folder) == 130
    assert not (folder / "out" / "pruner.pt").exists()
    assert train(folder) == 0
    assert all(torch.equal(a, b) for a, b in zip(whole, weights(folder), strict=True))
    assert train(folder, steps=3) == 2
    assert "made with another plan: steps 4, now 3" in capsys.readouterr().err
    assert train(folder, steps=5) == 0  # what has ended goes on
    assert len(torch.load(folder / "out" / "training.pt")["history"]["loss"]) == 5
    assert train(folder, rows=3) == 2
    assert "made with another reading: rows 2, now 3" in capsys.readouterr().err
    chat = folder / "data" / "chat.json"
    whole_chat = chat.read_text()
    chat.write_text(json.dumps(json.loads(whole_chat)[:1]))
    assert train(folder) == 2
    assert "made with another reading: examples " in capsys.readouterr().err
    chat.write_text(whole_chat)
    names = {"model": "llava", "data": "vqa", "pruner": "out/pruner.pt"}
    values = {key: folder / name for key, name in names.items()}
    assert call("evaluate", "token_pruning", values) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 questions, 0 left out"
    assert lines[1].startswith("unpruned: ")
    assert lines[2].startswith("ours, ")


def halve(folder: Path) -> None:
    """A download that broke off: its head is there, and with it the image's size."""
    path = folder / "data/images/000000000001.jpg"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "data/images/000000000001.jpg").unlink(), "000000000001.jpg is not there"),
        (lambda f: (f / "data/images/000000000001.jpg").write_bytes(b"no"), "is no image that can"),
        (halve, "000000000001.jpg is no image that can be read"),
        (lambda f: (f / "data/chat.json").write_text("["), "chat.json is no JSON"),
        (lambda f: (f / "data/chat.json").write_text("[1]"), "no record with image and"),
        (lambda f: (f / "data/chat.json").write_text(GPT_FIRST), "turns that are not human, gpt"),
        (lambda f: (f / "data/chat.json").write_text(SILENT), "turns that are not human, gpt"),
        (lambda f: (f / "data/chat.json").unlink(), "holds no example"),
        (lambda f: shutil.rmtree(f / "data"), "is no folder; give one with *.json and images"),
        (lambda f: (f / "config.yaml").write_text("keep: 3"), "unknown key 'keep'"),
        (lambda f: (f / "out").rmdir(), "is no folder; make it first"),
        (lambda f: (f / "llava/tokenizer.json").unlink(), "has no processor"),
    ],
)
def test_what_is_refused_before_any_work(folder, spoil, message, capsys):
    spoil(folder)
    assert train(folder) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out" / "training.pt").exists()


def test_spoilt_records_are_left_out_only_when_asked(folder, capsys):
    (folder / "data/images/000000000001.jpg").write_bytes(b"no")
    assert train(folder) == 2
    assert "1 records of data cannot be used" in capsys.readouterr().err
    assert train(folder, skip=True, steps=1) == 0
    assert "4 examples, 2 left out" in capsys.readouterr().out


def test_parameters_and_methods_that_are_not_there(folder, capsys):
    assert main(["train", "token_pruning", "--set", "model=x"]) == 2
    err = capsys.readouterr().err
    assert "data: " in err
    assert "out: " in err
    assert main(["train", "sparse_attention"]) == 2
    assert "sparse_attention has no 'train'; methods that have: " in capsys.readouterr().err


def test_targets_stand_where_the_answer_is_predicted(folder):
    llava = load_llava(folder / "llava")
    processor = AutoProcessor.from_pretrained(folder / "llava")
    examples, _ = data.instruct(folder / "data")
    prompt = data.supervised(llava, processor, [examples[0], examples[1]])
    assert examples[1].before == "what colour is the cat ? red\n"
    for row, words in ((0, "red </s>"), (1, "no . </s>")):
        at = (prompt.targets[row] != IGNORE).nonzero()[:, 0]
        wanted = processor.tokenizer.convert_tokens_to_ids(words.split())
        assert prompt.targets[row, at].tolist() == wanted
        assert prompt.ids[row, at + 1].tolist() == wanted  # each place predicts the next token
        assert int(prompt.asked[row].nonzero().max()) == int(at[0])
    assert prompt.real()[:, -1].all()


def test_a_question_comes_with_all_the_turns_before_it(folder):
    """The model reads the third question after both questions before it with their answers."""
    turns = (("what colour is the cat ?", "red"), ("is this a dog ?", "no ."), ("two ?", "yes"))
    said = [
        {"from": who, "value": text}
        for turn in turns
        for who, text in zip(("human", "gpt"), turn, strict=True)
    ]
    record = {"image": "images/000000000000.jpg", "conversations": said}
    (folder / "data" / "chat.json").write_text(json.dumps([record]))
    llava = load_llava(folder / "llava")
    processor = AutoProcessor.from_pretrained(folder / "llava")
    examples, _ = data.instruct(folder / "data")
    prompt = data.supervised(llava, processor, examples)
    read = processor.tokenizer.batch_decode(prompt.ids, skip_special_tokens=True)
    wanted = ["USER :"] * 3
    for row in range(3):
        for question, answer in turns[:row]:
            wanted[row] += f" {question} {answer}"
        wanted[row] += f" {turns[row][0]} ASSISTANT : {turns[row][1]}"
    assert [" ".join(text.split()) for text in read] == wanted


def test_vqa_accuracy_is_its_definition():
    assert vqa_accuracy("Red.", ["red"]) == 1
    assert vqa_accuracy("the cat", ["cat"] * 10) == 1
    assert vqa_accuracy("cat", ["dog"] * 10) == 0
    # The normalisation of VQA's public evaluation: figures, contractions, marks inside words.
    for given, answer in (
        ("Two dogs", "2 dogs"),
        ("none", "0"),
        ("dont know", "don't know"),
        ("1,000", "1000"),
        ("red/white", "red white"),
        ("t-shirt", "t shirt"),
        ("3.5", "3.5"),
        ("yes, it is", "yes it is"),
    ):
        assert vqa_accuracy(given, [answer]) == 1, given
    for given, answer in (("35", "3.5"), ("eleven", "11"), ("well", "we'll"), ("its", "it's")):
        assert vqa_accuracy(given, [answer]) == 0, given
    # 2 of 10 gave it: left out once in 2 cases (1/3), else 2/3: (2 * 1/3 + 8 * 2/3) / 10
    assert vqa_accuracy("cat", ["cat"] * 2 + ["dog"] * 8) == pytest.approx(0.6)


def test_vqa_faults_are_named(folder):
    annotations = {"annotations": [{"question_id": 0, "answers": [{"answer": "cat"}]}]}
    (folder / "vqa" / "annotations.json").write_text(json.dumps(annotations))
    with pytest.raises(InputError, match="question 1: no answer stands"):
        data.vqa(folder / "vqa")
    assert len(data.vqa(folder / "vqa", skip=True)[0]) == 1
    (folder / "data" / "images" / "000000000000.jpg").unlink()
    with pytest.raises(InputError, match="question 0: its image is not there"):
        data.vqa(folder / "vqa")
    (folder / "vqa" / "annotations.json").write_text("{}")
    with pytest.raises(InputError, match="not in the format of VQA v2"):
        data.vqa(folder / "vqa")


@pytest.mark.parametrize(
    "questions",
    [[1], ["what ?"], [{"question_id": 0, "image_id": 0}], {"question": "what ?"}, None],
)
def test_questions_that_are_none(folder, questions):
    (folder / "vqa" / "questions.json").write_text(json.dumps({"questions": questions}))
    with pytest.raises(InputError, match="not in the format of VQA v2"):
        data.vqa(folder / "vqa")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question_id": [0]}, "not in the format of VQA v2"),
        ({"question_id": {}}, "not in the format of VQA v2"),
        ({"image_id": None}, "question 0: its image is not there"),
        ({"image_id": [1]}, "question 0: its image is not there"),
        ({"image": "a\0b.jpg"}, "is no image that can be read"),
        ({"image": None}, "question 0: None is not there"),
    ],
)
def test_questions_with_values_of_other_kinds(folder, change, said):
    one = {"question_id": 0, "image_id": 0, "question": "what ?"} | change
    (folder / "vqa" / "questions.json").write_text(json.dumps({"questions": [one]}))
    with pytest.raises(InputError, match=said):
        data.vqa(folder / "vqa")


def test_a_placeholder_in_a_text_is_no_second_image(folder):
    """It would be found out when its batch comes, perhaps after hours."""
    path = folder / "data" / "chat.json"
    path.write_text(path.read_text().replace("no .", "<image> no ."))
    examples, _ = data.instruct(folder / "data")
    assert {one.answers for one in examples} == {("red",), ("no .",)}
    asked = [{"question_id": 0, "image_id": 0, "question": "<image>\nwhat ?"}]
    (folder / "vqa" / "questions.json").write_text(json.dumps({"questions": asked}))
    ((example,), _) = data.vqa(folder / "vqa")
    assert example.question.strip() == "what ?"


def test_links_may_lead_in_circles(folder):
    for name in ("again", "and_again"):
        (folder / "vqa" / name).symlink_to(folder / "vqa")
    assert len(data.vqa(folder / "vqa")[0]) == 3


def test_answers_may_be_numbers_and_images_must_be_there(folder):
    asked = [{"question_id": 0, "image": "images/000000000000.jpg", "question": "how many ?"}]
    (folder / "vqa" / "questions.json").write_text(json.dumps({"questions": asked}))
    annotations = [{"question_id": 0, "answers": [{"answer": 2}]}]
    (folder / "vqa" / "annotations.json").write_text(json.dumps({"annotations": annotations}))
    ((example,), _) = data.vqa(folder / "vqa")
    assert vqa_accuracy("2.", example.answers) == 1
    asked[0]["image"] = 3
    (folder / "vqa" / "questions.json").write_text(json.dumps({"questions": asked}))
    with pytest.raises(InputError, match="question 0: 3 is not there"):
        data.vqa(folder / "vqa")


def test_both_accuracies_and_what_is_lost(folder, capsys, monkeypatch):
    """Unpruned says "cat" once and then nothing, pruned "dog": 2 and 1 of 3 people say so."""
    assert train(folder, steps=1) == 0
    capsys.readouterr()
    answers = iter(["cat", "?", "?"])

    def write(llava, prompt, stages, new):
        tokenizer = AutoProcessor.from_pretrained(folder / "llava").tokenizer
        words = tokenizer.decode(prompt.ids[0])
        shown.append(words)
        return torch.tensor([tokenizer.encode("dog" if stages else next(answers))])

    shown: list[str] = []
    monkeypatch.setattr(practice, "generate", write)
    names = {"model": "llava", "data": "vqa", "pruner": "out/pruner.pt"}
    values = {key: folder / name for key, name in names.items()}
    assert call("evaluate", "token_pruning", values | {"rows": 1}) == 0
    lines = capsys.readouterr().out.splitlines()
    # cat: (1/3 + 1/3 + 2/3) / 3 = .444, of three questions .148; dog: (1/3 + 1/3) / 3 = .222
    assert lines[1] == "unpruned: 14.8% (0.0% to 78.6%)"
    assert " visual tokens a layer: 22.2% (22.2% to 22.2%), lost -7.4 points (" in lines[2]
    assert len(shown) == 6
    assert all("word" in words for words in shown)  # asked to answer in one


def test_what_is_lost_lies_within_a_hundred_points(folder, capsys, monkeypatch):
    """One question of two is lost and the other won: of so few nothing is known."""
    assert train(folder, steps=1) == 0
    right = iter([1.0, 0.0, 0.0, 1.0])  # both questions unpruned, then pruned
    monkeypatch.setattr(practice, "vqa_accuracy", lambda *_: next(right))
    path = folder / "vqa" / "questions.json"
    asked = json.loads(path.read_text())["questions"]
    path.write_text(json.dumps({"questions": asked[:2]}))
    names = {"model": "llava", "data": "vqa", "pruner": "out/pruner.pt"}
    capsys.readouterr()
    assert call("evaluate", "token_pruning", {k: folder / v for k, v in names.items()}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "lost 0.0 points (-100.0 to 100.0); to the first token " in lines[2]


def test_selectors_are_compared_at_equal_mean_tokens(folder, capsys):
    """On the tiny checkpoint's 16 patches and 4 layers: before the model, or before layer 2."""
    values = {"model": folder / "llava", "data": folder / "vqa"}
    named = "chance,divprune,cdpruner,visionzip"
    assert call("evaluate", "token_pruning", values | {"selectors": named, "tokens": 6}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines[2:]] == named.split(",")
    assert all(", 6.0 visual tokens a layer: " in line and ", lost " in line for line in lines[2:])
    assert call("evaluate", "token_pruning", values | {"selectors": "fastv", "tokens": 10}) == 0
    assert "fastv, 10.0 visual tokens a layer: " in capsys.readouterr().out
    # 16 tokens in two of four layers are 8 on average: no budget is left for the others
    assert call("evaluate", "token_pruning", values | {"selectors": "fastv", "tokens": 8}) == 2
    assert "a budget of 0 visual tokens" in capsys.readouterr().err
    for changes, said in (
        ({"selectors": "ours"}, "ours needs"),
        ({"selectors": "chance"}, "tokens"),
    ):
        assert call("evaluate", "token_pruning", values | changes) == 2
        assert said in capsys.readouterr().err
    assert train(folder, steps=1) == 0
    pruner = {"pruner": folder / "out" / "pruner.pt", "selectors": "ours,chance"}
    capsys.readouterr()
    assert call("evaluate", "token_pruning", values | pruner) == 0
    ours, chance = capsys.readouterr().out.splitlines()[2:]
    mean = float(ours.split()[1])
    assert f"chance, {round(mean)}.0 visual tokens" in chance


def test_what_the_first_token_costs_is_said_of_each(folder, capsys):
    values = {"model": folder / "llava", "data": folder / "vqa", "rows": 1, "tokens": 4}
    assert call("evaluate", "token_pruning", values | {"selectors": "uniform,divprune"}) == 0
    shares = []
    for line in capsys.readouterr().out.splitlines()[2:]:
        _, found = line.split("; to the first token ")
        shares.append(float(found.split("%")[0]))
        times = [float(number) for number in re.findall(r"[\d.]+(?= times|\)| to )", found)]
        assert times[1] <= times[0] <= times[2]
    assert shares[0] < shares[1] < 100  # likeness of all pairs is counted


def test_captions_are_scored_by_bleu(folder, capsys, monkeypatch):
    images = [{"id": i, "file_name": f"{i:012d}.jpg"} for i in range(3)]
    said = ["a red cat sits on the mat", "the blue dog runs away now", "two cats in a red house"]
    annotations = [
        {"image_id": i, "caption": text} for i, one in enumerate(said) for text in (one, one + " .")
    ]
    listed = folder / "vqa" / "captions.json"
    listed.write_text(json.dumps({"images": images, "annotations": annotations}))
    shown = []

    def write(llava, prompt, stages, new):
        shown.append((len(prompt.ids), new))
        return torch.zeros(3, 1, dtype=torch.long)

    class Said:
        def batch_decode(self, ids, **_):
            return said if len(shown) == 1 else [*said[:2], "nothing of the kind is here"]

    load = practice.load

    def loaded(*given):
        llava, processor = load(*given)
        monkeypatch.setattr(type(processor.tokenizer), "batch_decode", Said().batch_decode)
        return llava, processor

    monkeypatch.setattr(practice, "generate", write)
    monkeypatch.setattr(practice, "load", loaded)
    values = {"model": folder / "llava", "data": folder / "vqa", "selectors": "uniform"}
    assert call("evaluate", "token_pruning", values | {"tokens": 4}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert shown == [(3, 64), (3, 64)]
    assert lines[0] == "3 images, 0 left out"
    assert lines[1] == "unpruned: BLEU-4 100.0"
    # Of 19 words 13 are right, of 16 pairs 11, of 13 triples 9, of 10 quadruples 7.
    right = (13 / 19 * 11 / 16 * 9 / 13 * 7 / 10) ** 0.25
    assert f": BLEU-4 {100 * right:.1f} (lost {100 - 100 * right:.1f} %, 0.0 to 100.0)" in lines[2]
    listed.write_text(json.dumps({"images": images, "annotations": annotations[2:]}))
    assert call("evaluate", "token_pruning", values | {"tokens": 4}) == 2
    assert "image 0: no caption stands in captions.json" in capsys.readouterr().err
    listed.write_text("[]")
    assert call("evaluate", "token_pruning", values | {"tokens": 4}) == 2
    assert "captions.json: not in the format of COCO" in capsys.readouterr().err


def test_a_batch_depends_on_seed_and_step_alone(folder, monkeypatch):
    monkeypatch.setattr(data, "supervised", lambda llava, processor, examples: examples)
    every = list(range(1000))
    draw, other = (data.batches(None, None, every, 8, seed) for seed in (0, 1))
    assert draw(0) == data.batches(None, None, every, 8, 0)(0)
    assert len({tuple(batch) for batch in (draw(0), draw(1), other(0), other(1))}) == 4


def test_what_was_said_before_is_part_of_the_question(folder):
    llava = load_llava(folder / "llava")
    processor = AutoProcessor.from_pretrained(folder / "llava")
    examples, _ = data.instruct(folder / "data")
    words = processor.tokenizer.decode(data.question_of(llava, processor, examples[1:2]).ids[0])
    assert "colour of" not in words
    assert words.index("colour") < words.index("red") < words.index("dog")


def test_conversations_are_read_by_the_names_of_other_programs(folder):
    from methods.token_pruning.data import instruct

    data = folder / "data"
    records = json.loads((data / "chat.json").read_text())
    (data / "chat.json").unlink()
    (data / "bom.json").write_text(json.dumps(records), encoding="utf-8-sig")
    expected, _ = instruct(data, skip=True)
    assert len(expected) == 6
    renamed = [
        {
            "images": [one["image"]] if "image" in one else [],
            "messages": [{"role": "system", "content": "Be brief."}]
            + [
                {
                    "role": {"human": "user", "gpt": "assistant"}[turn["from"]],
                    "content": [{"type": "image"}, {"type": "text", "text": turn["value"]}],
                }
                for turn in one["conversations"]
            ],
        }
        for one in records
    ]
    (data / "bom.json").unlink()
    lines = "\n".join(json.dumps(one) for one in renamed)
    (data / "chat.jsonl").write_text(lines + "\n", encoding="utf-8-sig")
    assert instruct(data, skip=True)[0] == expected
    renamed[0]["images"] *= 2
    (data / "chat.jsonl").write_text("\n".join(json.dumps(one) for one in renamed))
    found, faults = instruct(data, skip=True)
    assert (len(found), faults[0]) == (4, "chat.jsonl[0]: 2 images, and an example has one")
    (data / "chat.jsonl").write_text("{")
    with pytest.raises(InputError, match="is no JSON"):
        instruct(data)
