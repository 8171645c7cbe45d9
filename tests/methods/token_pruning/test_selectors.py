"""One registry: indices in order, budgets kept, and each rule does what its paper says."""

from dataclasses import replace

import pytest
import torch

from methods.errors import InputError
from methods.token_pruning import choice, selectors
from methods.token_pruning.checks import example, prompt_of
from methods.token_pruning.choice import BEFORE, Stage, first_context
from methods.token_pruning.core import read
from methods.token_pruning.llava import encode, load_llava, sized
from methods.token_pruning.selectors import REGISTRY


@pytest.fixture(scope="module")
def llava():
    return example("cpu")


@pytest.fixture(scope="module")
def context(llava):
    prompt = replace(prompt_of(llava, 3), needed=torch.tensor([[1, 2], [5, 5], [15, 0]]))
    vision = encode(llava, prompt.pixels)
    found = first_context(llava, prompt, vision, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return replace(
            found,
            attention=lambda: vision.saliency.flip(1),
            ahead=lambda _words: vision.saliency.flip(1),
        )


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("k", [1, 4, 6, 16])
@torch.no_grad()
def test_every_selector_keeps_its_budget_in_order(context, name, k):
    index = REGISTRY[name].select(context, k)
    assert index.shape == (3, k)
    assert (index.diff(dim=1) > 0).all()
    assert 0 <= int(index.min()) <= int(index.max()) < 16
    entered = REGISTRY[name].enter(context, k)
    assert entered.features.shape == (3, k, 32)
    if k == 16:
        assert torch.allclose(entered.features, context.vision.features, atol=1e-6)


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("k", [0, 17])
@torch.no_grad()
def test_budgets_above_the_tokens(context, name, k):
    with pytest.raises(InputError, match=f"{k}"):
        REGISTRY[name].enter(context, k)


@torch.no_grad()
def test_rules(context):
    assert torch.equal(selectors.uniform(context, 4)[0], torch.tensor([2, 6, 10, 14]))
    best = selectors.fastv(context, 3)
    assert torch.equal(best, context.attention().topk(3).indices.sort().values)
    for row, (asked, holds) in enumerate(context.needed.tolist()):
        assert holds in selectors.oracle(context, 1)[row].tolist()
        assert {asked, holds} <= set(selectors.oracle(context, 2)[row].tolist())
    merged = selectors.tome(context, 5)
    sizes = merged.bias.exp()
    assert torch.allclose(sizes.sum(1), torch.full((3,), 16.0))
    weighed = (merged.features * sizes[..., None]).sum(1)
    assert torch.allclose(weighed, context.vision.features.sum(1), atol=1e-4)
    cells = selectors.pooled(context, 4).features
    assert torch.allclose(cells.mean(1), context.vision.features.mean(1), atol=1e-5)


@torch.no_grad()
def test_visionzip_keeps_cls_and_adds_means_to_anchors(context):
    """k = 13 of 16: round(13 * 10 / 64) = 2 contextual, CLS, 10 dominant; 6 are left over."""
    vision = context.vision
    found = selectors.visionzip(context, 13)
    for row in range(3):
        order = vision.saliency[row].argsort(descending=True)
        dominant = order[:10].sort().values
        rest = order[10:].sort().values
        anchors, others = rest[[0, 3]], rest[[1, 2, 4, 5]]  # every third of six
        heads = vision.layer.self_attn.k_proj(vision.layer.layer_norm1(vision.states[row, 1:]))
        keys = torch.nn.functional.normalize(heads.view(16, 4, 8).mean(1), dim=-1)
        to = (keys[others] @ keys[anchors].T).argmax(1)
        wanted = {int(i): vision.features[row, i] for i in dominant}
        for j, anchor in enumerate(anchors):
            mine = vision.features[row, others[to == j]]
            mean = mine.mean(0) if len(mine) else torch.zeros(32)
            wanted[int(anchor)] = vision.features[row, anchor] + mean
        free = next(i for i in range(16) if i not in wanted)
        wanted[free] = vision.cls[row]
        assert found.index[row].tolist() == sorted(wanted)
        expected = torch.stack([wanted[i] for i in sorted(wanted)])
        assert torch.allclose(found.features[row], expected, atol=1e-5)


@torch.no_grad()
def test_prumerge_adds_the_nearest_by_key_weighed_by_cls(context):
    vision = context.vision
    found = selectors.prumerge(context, 3)
    a = vision.saliency  # 16 patches, fewer than 32 neighbours: all others are added
    for row in range(3):
        whole = (a[row, :, None] * vision.features[row]).sum(0)
        for j, i in enumerate(found.index[row].tolist()):
            wanted = vision.features[row, i] + whole - a[row, i] * vision.features[row, i]
            assert torch.allclose(found.features[row, j], wanted, atol=1e-5)


@pytest.mark.parametrize("k", [2, 3, 5])
@torch.no_grad()
def test_tome_merges_the_most_alike_and_weighs_by_what_each_stands_for(context, k):
    """By lists: from 16 patches to so few takes rounds of tokens that are merged already."""
    vision = context.vision
    found = selectors.tome(context, k)
    for row in range(3):
        tokens = [
            (place, 1, vision.features[row, place], vision.keys[row, place]) for place in range(16)
        ]
        while len(tokens) > k:
            a, b = tokens[::2], tokens[1::2]
            alike = torch.stack([one[3] for one in a]) @ torch.stack([one[3] for one in b]).T
            lengths = [torch.stack([one[3].norm() for one in side]) for side in (a, b)]
            cosine = alike / lengths[0][:, None] / lengths[1]
            order = cosine.amax(1).argsort(descending=True)[: min(len(a), len(tokens) - k)].tolist()
            groups = {j: [one] for j, one in enumerate(b)}
            for i in order:
                groups[int(cosine[i].argmax())].append(a[i])
            merged = []
            for (place, *_), *others in ((group[0], *group) for group in groups.values()):
                size = sum(one[1] for one in others)
                sums = [sum(one[1] * one[part] for one in others) / size for part in (2, 3)]
                merged.append((place, size, *sums))
            stay = [one for i, one in enumerate(a) if i not in order]
            tokens = sorted(stay + merged, key=lambda one: one[0])
        assert found.index[row].tolist() == [one[0] for one in tokens]
        assert found.bias[row].exp().tolist() == pytest.approx([one[1] for one in tokens])
        assert torch.allclose(found.features[row], torch.stack([t[2] for t in tokens]), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_tome_counts_and_averages_in_single_precision(dtype):
    """All of 576 patches in one token: their number and their mean, rounded once."""
    llava = load_llava(sized(vision={"image_size": 192, "patch_size": 8}), dtype=dtype)
    prompt = prompt_of(llava, 1)
    vision = encode(llava, prompt.pixels)
    found = selectors.tome(first_context(llava, prompt, vision, None), 1)
    assert float(found.bias.exp()) == pytest.approx(576, rel=1e-5)
    assert found.features.dtype == dtype
    mean = vision.features.float().mean(1, keepdim=True)
    assert torch.allclose(found.features.float(), mean, rtol=8e-3, atol=1e-6)


@torch.no_grad()
def test_divprune_is_its_greedy_rule(context):
    for row, visual in enumerate(context.visual):
        unit = torch.nn.functional.normalize(visual, dim=-1)
        far = 1 - (unit @ unit.T + (unit @ unit.T).T) / 2
        alone = [min(float(far[i, j]) for j in range(16) if j != i) for i in range(16)]
        chosen = [max(range(16), key=alone.__getitem__)]
        while len(chosen) < 6:
            rest = [i for i in range(16) if i not in chosen]
            chosen.append(max(rest, key=lambda i: min(float(far[i, j]) for j in chosen)))
        assert selectors.divprune(context, 6)[row].tolist() == sorted(chosen)


@torch.no_grad()
def test_pooled_cells_stand_where_their_middles_are(context):
    assert selectors.pooled(context, 4).index[0].tolist() == [5, 7, 13, 15]
    cells = selectors.pooled(context, 8)  # 2 rows of 4
    assert cells.index[0].tolist() == [*range(4, 8), *range(12, 16)]
    features = context.vision.features
    assert torch.allclose(cells.features[:, 1], (features[:, 1] + features[:, 5]) / 2, atol=1e-6)


def test_sparsevlm_looks_for_words_among_those_that_are_asked():
    """Likeness of a visual token to three words: 0, .4 and 3, the last not asked in the first row.

    The word that is not asked has no share, and none in the mean that others are held against.
    """
    visual = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
    text = torch.tensor([[[0.0, 1.0], [0.4, 0.0], [3.0, 0.0]]] * 2)
    asked = torch.tensor([[True, True, False], [True, True, True]])
    raters = []

    def ahead(words):
        raters.append(words)
        return torch.ones(2, 1)

    made = choice.Context(
        lambda: visual, torch.zeros(2, 1, dtype=torch.long), text, asked, None, ahead=ahead
    )
    selectors.sparsevlm(made, 1)
    # shares .4, .6 of two words, mean .5; .045, .067, .89 of three, mean .33
    assert raters[0].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_the_tower_s_saliency_is_what_transformers_computes(llava, context):
    """In the layer behind which the projector reads, CLS to the patches, mean over heads."""
    pixels = prompt_of(llava, 3).pixels
    tower = llava.model.vision_tower
    tower.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            seen = tower(pixels, output_attentions=True, output_hidden_states=True)
    finally:
        tower.set_attn_implementation("sdpa")
    layer = llava.config.vision_feature_layer + 1  # of attentions there is none before the first
    wanted = seen.attentions[layer - 1].mean(1)[:, 0, 1:]
    with torch.no_grad():
        assert torch.allclose(context.vision.saliency, wanted, atol=1e-6)
    at = llava.config.vision_feature_layer
    assert torch.allclose(context.vision.features, seen.hidden_states[at][:, 1:], atol=1e-5)
    assert torch.allclose(context.vision.cls, seen.hidden_states[at][:, 0], atol=1e-5)
    assert torch.allclose(context.vision.states, seen.hidden_states[at - 1], atol=1e-5)


def test_relevances():
    """Two tokens, two words: cosines (1, 0) and (.6, .8), and a word that is not asked."""
    visual = torch.tensor([[[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]])
    text = torch.tensor([[[2.0, 0.0], [0.0, 3.0], [-1.0, -1.0]]])
    asked = torch.tensor([[True, True, False]])
    made = choice.Context(lambda: visual, torch.arange(3)[None], text, asked, None)
    # best word: 1, .8, 0 -> as it is
    assert torch.allclose(selectors.relevance(made), torch.tensor([[1.0, 0.8, 0.0]]))


def test_choices_by_the_layer_that_comes(llava):
    """PyramidDrop reads the last word's attention, SparseVLM that of the words that see most."""
    prompt = prompt_of(llava)
    seen = []

    def look(context, k):
        words = torch.zeros_like(context.asked, dtype=torch.float32)
        words[:, 3] = 1.0
        seen.extend((context.ahead(None), context.ahead(words)))
        assert torch.equal(selectors.pyramiddrop(context, k), seen[0].topk(k).indices.sort().values)
        p = (context.visual @ context.text.mT).softmax(-1).mean(1)
        raters = (p >= p.mean(1, keepdim=True)).float()
        wanted = context.ahead(raters).topk(k).indices.sort().values
        assert torch.equal(selectors.sparsevlm(context, k), wanted)
        return wanted

    read(llava, prompt, [Stage(1, 4, choice.Selector("look", look))])
    llava.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            theirs = (
                llava(input_ids=prompt.ids, pixel_values=prompt.pixels, output_attentions=True)
                .attentions[1]
                .mean(1)
            )
    finally:
        llava.set_attn_implementation("sdpa")
    assert torch.allclose(seen[0], theirs[:, -1, 2:18], atol=1e-6)
    assert torch.allclose(seen[1], theirs[:, 19, 2:18], atol=1e-6)  # word 3 is place 19


def test_diversity_leaves_no_group_out():
    """Three tight groups: three tokens, one from each; the relevant group comes first."""
    centres = torch.eye(3, 8).repeat_interleave(4, 0)[None] * 5
    visual = centres + 0.01 * torch.randn(1, 12, 8, generator=torch.Generator().manual_seed(0))
    text = torch.eye(3, 8)[None, 1:2] + 0.05
    made = choice.Context(
        lambda: visual, torch.arange(12)[None], text, torch.ones(1, 1, dtype=torch.bool), None
    )
    assert (selectors.divprune(made, 3)[0] // 4).tolist() == [0, 1, 2]
    assert int(selectors.cdpruner(made, 1)[0, 0]) // 4 == 1


def test_cdpruner_grows_the_determinant_greedily(monkeypatch):
    """Each token is the one whose principal minor of diag(r) L diag(r) is largest."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):  # relevance on one side alone often chooses alike
        visual = torch.randn(1, 9, 4, generator=generator)
        r = 0.1 + torch.rand(1, 9, generator=generator)
        monkeypatch.setattr(selectors, "relevance", lambda _, r=r: r)
        made = choice.Context(
            lambda visual=visual: visual, torch.arange(9)[None], visual[:, :1], r[:, :1] > 0, None
        )
        unit = torch.nn.functional.normalize(visual[0], dim=-1).double()
        kernel = torch.diag(r[0].double()) @ (unit @ unit.T) @ torch.diag(r[0].double())
        chosen: list[int] = []
        for _ in range(4):
            rest = [i for i in range(9) if i not in chosen]
            minors = [torch.det(kernel[[*chosen, i]][:, [*chosen, i]]).item() for i in rest]
            chosen.append(rest[max(range(len(rest)), key=minors.__getitem__)])
        assert selectors.cdpruner(made, 4).tolist() == [sorted(chosen)]


def test_places_where_a_rule_cannot_stand(llava, context):
    prompt = prompt_of(llava)
    with pytest.raises(InputError, match="FastV cannot choose before"):
        read(llava, prompt, [Stage(BEFORE, 4, REGISTRY["fastv"])])
    with pytest.raises(InputError, match="ToMe cannot choose inside"):
        read(llava, prompt, [Stage(1, 4, REGISTRY["tome"])])
    with pytest.raises(InputError, match="before layer 0 there is none"):
        read(llava, prompt, [Stage(0, 4, REGISTRY["fastv"])])
    with pytest.raises(InputError, match="the oracle knows drawn scenes only"):
        read(llava, prompt, [Stage(0, 4, REGISTRY["oracle"])])
    with pytest.raises(InputError, match="7 cells make none"), torch.no_grad():
        selectors.pooled(context, 7)


def test_fastv_reads_the_attention_that_transformers_computes(llava):
    """Weights of the layer before, last query, mean over heads."""
    prompt = prompt_of(llava)
    seen = []
    spy = choice.Selector(
        "spy", lambda c, k: (seen.append(c.attention()), selectors.fastv(c, k))[1]
    )
    read(llava, prompt, [Stage(2, 4, spy)])
    llava.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            theirs = llava(
                input_ids=prompt.ids, pixel_values=prompt.pixels, output_attentions=True
            ).attentions[1]
    finally:
        llava.set_attn_implementation("sdpa")
    assert torch.allclose(seen[0], theirs[:, :, -1, 2:18].mean(1), atol=1e-6)
