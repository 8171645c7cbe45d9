"""Inputs that are refused, and what the options change."""

import math
from dataclasses import replace

import pytest
import torch

from methods.errors import InputError
from methods.kit import noise
from methods.seps import bench, checks, core, model
from methods.seps.config import SepsConfig, mended
from methods.seps.model import Seps
from methods.seps.pairs import Batch, Texts
from methods.seps.train import Matcher, alignment_loss, ratio_loss

SMALL = checks.VARIANTS["paper"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": 0.0}, "keep: .* greater than 0, not 0.0"),
        ({"keep": 1.5}, "keep: .* less than or equal to 1, not 1.5"),
        ({"keep": float("nan")}, "keep: .* finite"),
        ({"aggregate": -1.0}, "aggregate: .*not -1.0"),
        ({"patches": 0}, "patches: .* 0, not 0"),
        ({"dim": 5.5}, "dim: .*not 5.5"),
        ({"variant": "laps"}, "variant: .*'open_source' or 'paper', not 'laps'"),
        ({"beta": 0.6}, "beta: .* 0.5, not 0.6"),
        ({"margin": float("inf")}, "margin: .* finite"),
        ({"patches": 4, "keep": 0.3}, "leaves no aggregated token"),
        ({"variant": "open_source", "gate": True}, "gate and relaxation are for paper"),
        ({"variant": "open_source", "dense_of": "image"}, "it must be the caption's"),
        ({"variant": "open_source", "cosine": False}, "cosine=False is for paper"),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(InputError, match=message):
        SepsConfig(**changes)


def spoil(given, name, change):
    return given | {name: change(given[name])}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("patches", lambda x: x[:, 1:], r"\(images, 1 \+ 16, 32\) are needed"),
        ("patches", lambda x: x[..., :5], "are needed, CLS first"),
        ("patches", lambda x: x[:0], "are needed"),
        ("patches", lambda x: x * float("nan"), "patches hold NaN or infinity"),
        ("sparse", lambda x: Texts(x.words[..., :5], x.real), "sparse words are 5 wide"),
        ("dense", lambda x: None, "dense=True, the call has no dense text"),
        ("dense", lambda x: Texts(x.words[:1], x.real[:1]), "there are 1 dense texts for 2 rows"),
    ],
)
def test_bad_inputs(name, change, message):
    given = checks.inputs("cpu", SMALL)
    with pytest.raises(InputError, match=message):
        checks.example("cpu", SMALL)(**spoil(given, name, change))


def test_bad_texts():
    words, real = torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(InputError, match="words are"):
        Texts(words, real[:, :2])
    with pytest.raises(InputError, match="with a word in every caption"):
        Texts(words, real & False)
    with pytest.raises(InputError, match="must be boolean"):
        Texts(words, real.float())
    with pytest.raises(InputError, match="words hold NaN or infinity"):
        Texts(words / 0, real)
    Texts(torch.where(real[..., None], words, torch.nan), real)  # padding may hold anything


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("keep", [0.5, 1.0])
@pytest.mark.parametrize("name", checks.VARIANTS)
def test_half_precision_finds_what_single_finds(name, keep, dtype):
    """With keep = 1 nothing is dropped, and the extra token is zero."""
    config = replace(checks.VARIANTS[name], keep=keep)
    made = checks.example("cpu", config, exact=False)
    given = checks.inputs("cpu", config, batch=3, exact=False)
    half = {
        key: Texts(x.words.to(dtype), x.real) if isinstance(x, Texts) else x.to(dtype)
        for key, x in given.items()
        if x is not None
    }
    wanted = made(**given).similarity
    found = made.to(dtype)(**half).similarity
    assert found.dtype == dtype
    assert torch.allclose(found.float(), wanted, atol=0.2 if dtype == torch.bfloat16 else 0.01)
    drawn = made.train()(**half)
    assert drawn.similarity.isfinite().all()
    if keep < 1:
        ratio = ratio_loss(drawn.masks, config.keep)
        torch.autograd.backward(alignment_loss(drawn.similarity, config.margin) + ratio)
        assert all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", checks.VARIANTS)
def test_padding_that_is_no_number_reaches_neither_scores_nor_gradients(name):
    config = checks.VARIANTS[name]
    made, given = checks.example("cpu", config), checks.inputs("cpu", config, batch=3)
    patches = given["patches"].requires_grad_()
    found = []
    for filling in (0.0, torch.nan, torch.inf):
        texts = {
            key: Texts(x.words.masked_fill(~x.real[..., None], filling), x.real)
            for key, x in given.items()
            if isinstance(x, Texts)
        }
        similarity = made(patches, **texts).similarity
        found.append([similarity, *torch.autograd.grad(similarity.square().sum(), patches)])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_extra_token_of_zeros_has_no_huge_gradient(dtype):
    """If every patch stays, the extra token holds nothing, and the gate learns through it."""
    torch.manual_seed(0)
    gate = torch.ones(1, 2, 16, dtype=dtype, requires_grad=True)
    patches = torch.randn(2, 16, 8, dtype=dtype)
    words = torch.nn.functional.normalize(torch.randn(1, 5, 8, dtype=dtype), dim=-1)
    shares = core.share(torch.ones(2, 16, 3, dtype=dtype), gate, torch.zeros_like(gate))
    found = core.cosines(core.merge(patches, [shares])[1], words)
    assert not found.any()
    found.sum().backward()
    assert 0 < float(gate.grad.abs().max()) < 1e3


def test_open_source_s_leak_is_a_tenth():
    """One token, two words with cosines -1 and -.5: LeakyReLU(.1), then the two means."""
    A = torch.tensor([[[[-1.0, -0.5]]]])
    real = torch.ones(1, 2, dtype=torch.bool)
    # tokens: max(-.1, -.05) = -.05; words: mean(-.1, -.05) = -.075
    given = SepsConfig(dim=32, patches=16, aggregate=0.5, variant="open_source", dense=False)
    leaky = torch.nn.functional.leaky_relu(A, model.LEAK)
    assert float(core.alignment(leaky, real, None)) == pytest.approx(-0.125)
    patches, words = -torch.ones(1, 17, 32), torch.ones(1, 2, 32)  # every cosine is -1
    text = Texts(words, torch.ones(1, 2, dtype=torch.bool))
    found = checks.example("cpu", given, exact=False)(patches, text).similarity.detach()
    assert float(found) == pytest.approx(-0.2)


def gelu(x):
    return x * (1 + torch.erf(x / 2**0.5)) / 2


@torch.no_grad()
def test_the_three_maps_are_their_equations():
    """The definition takes the three maps from the model as they are."""
    v, best = torch.randn(2, 7, 32), torch.randn(3, 9)
    score = core.ScoreMLP(32)
    first, _, last = score.net
    wanted = torch.sigmoid(gelu(v @ first.weight.T + first.bias) @ last.weight[0] + last.bias)
    assert torch.allclose(score(v), wanted, atol=1e-6)

    aggregation = core.Aggregation(32, 4)
    _, first, _, last = aggregation.net
    normed = (v - v.mean(-1, keepdim=True)) / (v.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    logits = 3 * (gelu(normed @ first.weight.T + first.bias) @ last.weight.T + last.bias)
    strengths = aggregation(v, torch.tensor(3.0))
    ratio = strengths / strengths.sum(1, keepdim=True)
    assert torch.allclose(ratio, logits.softmax(1), atol=1e-6)

    relevance = core.Relevance(5)
    first, _, last = relevance.net
    top = best.sort(descending=True).values[:, :5]
    wanted = gelu(top @ first.weight.T + first.bias) @ last.weight[0] + last.bias
    assert torch.allclose(relevance(best), wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_are_stretched_and_equal_ones_are_zero(dtype):
    found = core.minmax(torch.tensor([[0.25, 0.5, 0.75], [0.3, 0.3, 0.3]], dtype=dtype))
    assert found.tolist() == [[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]]


def test_guides_are_cosines_or_the_source_s_products():
    """Two patches in one direction, one twice as long: alike by the cosine, not by the product."""
    v = torch.tensor([[[3.0, 4.0], [6.0, 8.0], [4.0, -3.0]]])  # mean (13/3, 3)
    text = torch.tensor([[0.0, 2.0]])
    own = v.mean(1)[None]
    assert torch.allclose(core.guide(v, text[None]), torch.tensor([[[0.8, 0.8, -0.6]]]))
    found = core.guide(v, text[None], cosine=False)
    assert found.tolist() == [[[4.0, 8.0, -3.0]]]
    found = core.guide(v, own, cosine=False)
    assert torch.allclose(found, torch.tensor([[[12.5, 25.0, 25 / 6]]]))
    length = (13**2 / 9 + 9) ** 0.5
    wanted = torch.tensor([[[5.0, 5.0, 5 / 3]]]) / length
    assert torch.allclose(core.guide(v, own), wanted)


def test_the_length_of_a_patch_counts_in_products_alone(monkeypatch):
    """A whole model's guides: patches ten times as long have ten times the product."""
    asked, right = [], Seps.score
    monkeypatch.setattr(
        Seps, "score", lambda self, *given: (asked.append(given[1]), right(self, *given))[1]
    )
    for cosine, factor in ((True, 1.0), (False, 10.0)):
        config = replace(SMALL, cosine=cosine)
        made, given = checks.example("cpu", config), checks.inputs("cpu", config)
        asked.clear()
        for times in (1, 10):
            made(**given | {"patches": times * given["patches"]})
        near, far = asked[0], asked[2]  # of the first of two branches
        assert len(near) == 2
        for before, after in zip(near, far, strict=True):
            assert torch.allclose(factor * before, after, rtol=1e-9)
    products = made(**given).similarity
    cosines = checks.example("cpu", SMALL)(**given).similarity
    assert not torch.allclose(products, cosines)


def test_guides_learn_nothing_and_chance_looks_at_nothing():
    v, words = torch.randn(2, 7, 32, requires_grad=True), torch.randn(3, 4, 32, requires_grad=True)
    text = Texts(words, torch.ones(3, 4, dtype=torch.bool))
    guides = text.prepared().mean, core.guide(v, v.mean(1)[None]), core.guide(v, words[:, :1])
    assert not any(guide.requires_grad for guide in guides)
    torch.manual_seed(0)
    learnt = torch.full((2, 500), 0.9)
    drawn = model.candidate("random", SMALL).score(learnt, [], learnt)
    assert drawn.shape == (1, 2, 500)
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.03)


def test_the_ratio_loss_is_weighed_as_configured():
    config = mended(dim=32, patches=16, aggregate=0.5, ratio_weight=3.0, lam=1.0)
    made = checks.example("cpu", config)
    output = made(**checks.inputs("cpu", config))
    matcher = Matcher(torch.nn.Identity(), torch.nn.Identity(), made)
    matcher.forward = lambda batch: output
    found = matcher.loss(Batch(torch.empty(0), torch.empty(0)), hardest=1.0)
    # two branches that keep half of the patches each, told to keep half together
    wanted = alignment_loss(output.similarity, config.margin) + 3 * (0.5 - 1.0) ** 2
    assert found.item() == pytest.approx(wanted.item())


def test_noise_is_that_of_two_gumbel_variables():
    """In training a patch stays with its sigmoid's chance; the source's gradient alone is noisy."""
    torch.manual_seed(0)
    drawn = noise.logistic(torch.empty(200_000, dtype=torch.float64))
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert float(drawn.var()) == pytest.approx(math.pi**2 / 3, rel=0.02)
    coarse = noise.logistic(torch.empty(200_000, dtype=torch.bfloat16))
    assert coarse.dtype == torch.bfloat16
    assert len(coarse.unique()) > 1000  # a uniform number of bfloat16 has 256 values
    config = mended(dim=32, patches=16, aggregate=0.5, temperature=0.5)
    made = checks.example("cpu", config).train()
    level = torch.full((1, 400, 16), 1.0)  # middle is 3/4: logits of (1 - 3/4) / (1/2)
    share, alone = float(made.choose(level).detach().mean()), 1 / (1 + math.exp(-0.5))
    assert share == pytest.approx(alone + (1 - alone) / 16, abs=0.02)  # one patch always stays
    faithful = checks.example("cpu", checks.VARIANTS["paper"]).train()
    level = torch.zeros(1, 50, 16, requires_grad=True)
    chosen = faithful.choose(level)
    assert (chosen.detach().sum(-1) == 8).all()
    (pull,) = torch.autograd.grad(chosen[..., 0].sum(), level)
    assert len(pull[0].unique(dim=0)) == 50


def test_the_gate_keeps_the_kept_and_drops_the_dropped():
    """Three patches, the middle one dropped: equal strengths halve the others."""
    gate = torch.tensor([[[1.0, 0.0, 1.0]]])
    shares = core.share(torch.ones(1, 3, 2), gate, torch.zeros(1, 1, 3))
    assert shares.kept.tolist() == [[[[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]]]
    assert shares.dropped.tolist() == [[[0.0, 1.0, 0.0]]]


def shares_with_gradients(lead, dtype=torch.float64):
    """Weights of six patches, the last of them dropped and `lead` nats ahead of the others."""
    torch.manual_seed(0)
    logits = torch.randn(1, 6, 3, dtype=torch.float64)
    logits[:, -1] = logits.amax(1) + lead
    strengths = (logits - logits.amax(1, keepdim=True)).exp().to(dtype).requires_grad_()
    gate = torch.tensor([[[1.0, 1.0, 0.0, 1.0, 1.0, 0.0]]], dtype=dtype, requires_grad=True)
    kept = core.share(strengths, gate, torch.zeros_like(gate)).kept
    pull = torch.randn(kept.shape, dtype=torch.float64).to(dtype)
    return strengths, gate, kept, pull


def test_where_no_dropped_patch_is_ahead_the_gradient_is_the_quotient_s():
    strengths, gate, kept, pull = shares_with_gradients(lead=-9.0)
    quotient = strengths.mT * gate[:, :, None]
    quotient = quotient / quotient.sum(-1, keepdim=True)
    assert torch.allclose(kept, quotient, atol=1e-15)
    found, wanted = (
        torch.autograd.grad((x * pull).sum(), (strengths, gate)) for x in (kept, quotient)
    )
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("lead", [5.0, 40.0, 70.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dropped_patch_that_is_far_ahead_has_no_huge_gradient(lead, dtype):
    """Its ratio to those that stay, which the quotient's gradient holds, would be 1e2 to 1e30."""
    _, gate, kept, pull = shares_with_gradients(lead, dtype)
    exact = shares_with_gradients(lead)[2]
    assert torch.allclose(kept.double(), exact, atol=1e-6 if dtype == torch.float32 else 2e-2)
    assert torch.allclose(kept.sum(-1), torch.ones((), dtype=dtype), atol=1e-2)
    (flow,) = torch.autograd.grad((kept * pull).sum(), gate)
    assert 0 < float(flow.abs().max()) < 20


def test_patches_that_stay_share_a_token_however_weak_they_are():
    """Beside one that is dropped their strengths would be zeros, and their sum none."""
    aggregation = core.Aggregation(8, 2)
    aggregation.net[-1].weight.data.mul_(1e4)
    with torch.no_grad():
        strengths = aggregation(torch.randn(1, 6, 8), torch.ones(1))
        first = strengths[0, :, 0].argmax()
        gate = torch.ones(1, 1, 6)
        gate[..., first] = 0.0
        kept = core.share(strengths, gate, torch.zeros_like(gate)).kept
    assert kept[0, 0, 0].sum().item() == pytest.approx(1.0)
    assert kept[0, 0, 0, first] == 0


@pytest.mark.parametrize(("name", "flows"), [("paper", False), ("mended", True)])
def test_only_the_mended_choice_gates_with_a_gradient(name, flows):
    made, given = checks.example("cpu", checks.VARIANTS[name]), checks.inputs("cpu", SMALL)
    shares = made(**given).shares[0].kept
    found = torch.autograd.grad(
        shares.square().sum(), list(made.scores.parameters()), allow_unused=True
    )
    assert any(g is not None and bool(g.any()) for g in found) is flows


def test_the_ratio_loss_is_the_squared_distance_from_keep():
    masks = [torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])]
    assert float(ratio_loss(masks, 0.5)) == pytest.approx((0.5 - 0.375) ** 2)
    assert float(ratio_loss(masks, 0.5, lam=1.0)) == pytest.approx((0.5 - 0.75) ** 2)


def test_losses_need_a_negative():
    with pytest.raises(InputError, match="two or more images"):
        alignment_loss(torch.zeros(1, 1), 0.2)
    S = torch.tensor([[1.0, 0.9], [0.0, 1.0]])
    assert alignment_loss(S, 0.2) == pytest.approx(0.1)  # one negative within the margin
    assert alignment_loss(S, 0.2, hardest=0) == pytest.approx(0.1)
    S = torch.tensor([[1.0, 0.9, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    worst, every = alignment_loss(S, 0.2), alignment_loss(S, 0.2, hardest=0)
    assert (worst, every) == (pytest.approx(0.2 / 3), pytest.approx(0.2 / 6))
    assert alignment_loss(S, 0.2, hardest=0.25) == pytest.approx(0.25 * worst + 0.75 * every)


def test_the_hardest_negative_of_an_image_is_a_caption_and_of_a_caption_an_image():
    """Image 1 has two captions within its margin, caption 1 two images: the worse of each counts.

    Rows are captions: .2 - S[1, 1] + S[0, 1] = .1 beside .05, and as much the other way.
    """
    S = torch.tensor([[1.0, 0.7, 0.0], [0.7, 0.8, 0.65], [0.0, 0.65, 1.0]])
    assert float(alignment_loss(S, 0.2)) == pytest.approx((0.1 + 0.1) / 3)
    S = torch.tensor([[1.0, 0.7, 0.0], [0.0, 0.8, 0.0], [0.0, 0.65, 1.0]])
    assert float(alignment_loss(S, 0.2)) == pytest.approx(0.1 / 3)  # of image 1 alone
    S = S.T.contiguous()
    assert float(alignment_loss(S, 0.2)) == pytest.approx(0.1 / 3)  # of caption 1 alone


@pytest.mark.parametrize("hardest", [0.0, 0.5, 1.0])
def test_the_alignment_rests_where_every_pair_is_ahead_by_the_margin(hardest):
    """And pulls the true pairs up, the hardest negatives down, as long as one is not."""
    S = torch.eye(3).mul_(0.2001).add_(0.5).requires_grad_()
    loss = alignment_loss(S, 0.2, hardest=hardest)
    torch.autograd.backward(loss)
    assert float(loss.detach()) == 0
    assert not S.grad.any()
    S = torch.tensor([[0.7, 0.6, 0.55], [0.0, 0.7, 0.0], [0.0, 0.0, 0.7]], requires_grad=True)
    torch.autograd.backward(alignment_loss(S, 0.2, hardest=1.0))
    # caption 0 (hardest: image 1); images 1 and 2 (hardest: caption 0); thirds of each
    wanted = torch.tensor([[-1.0, 2.0, 1.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]) / 3
    assert torch.allclose(S.grad, wanted)


def test_the_ratio_loss_rests_at_keep():
    for keep, lam in ((0.5, None), (1.0, 1.0), (0.25, 0.25)):
        half = [torch.full((1, 1, 4), 0.5, requires_grad=True) for _ in range(2)]
        torch.autograd.backward(ratio_loss(half, keep, lam))
        assert not any(mask.grad.any() for mask in half)


def test_siblings_are_no_negatives():
    """Captions 0 and 1 are of one image: only what stands against image 2 counts."""
    S = torch.tensor([[1.0, 1.0, 0.9], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    owners = torch.tensor([0, 0, 2])
    # negatives: (0, 2) .1 over the margin once as text and once as image
    assert alignment_loss(S, 0.2, owners=owners) == pytest.approx(0.2 / 3)
    assert alignment_loss(S, 0.2, owners=owners, hardest=0) == pytest.approx(0.2 / 4)
    assert alignment_loss(S, 0.2) == pytest.approx((0.2 + 0.2 + 0.1 + 0.2 + 0.2) / 3)
    with pytest.raises(InputError, match="there is no negative"):
        alignment_loss(S, 0.2, owners=torch.zeros(3))


def test_dense_text_of_the_image_cannot_tell_who_asks():
    """Whose caption brings which dense text changes nothing where the image brings it."""
    config = checks.VARIANTS["mended, dense of the image"]
    made, given = checks.example("cpu", config), checks.inputs("cpu", config, batch=4)
    turned = torch.tensor([1, 2, 3, 0])
    sparse = Texts(given["sparse"].words[turned], given["sparse"].real[turned])
    before = made(**given).similarity
    after = made(**given | {"sparse": sparse}).similarity
    assert torch.allclose(after, before[turned], atol=1e-12)


def test_drawing_leaves_at_least_one_patch():
    config = mended(dim=32, patches=16, aggregate=0.5, temperature=1e-3)
    made = checks.example("cpu", config).train()
    D = made.choose(torch.full((3, 2, 16), -1.0, dtype=torch.float64))
    assert torch.equal(D.sum(-1), torch.ones(3, 2, dtype=torch.float64))


def test_candidates():
    base = SepsConfig(dim=32, patches=16, aggregate=0.5)
    given = checks.inputs("cpu", base, batch=3)
    for name in model.CANDIDATES:
        made: Seps = model.candidate(name, base).double().eval()
        own = given if made.config.dense else given | {"dense": None}
        assert made(**own).similarity.shape == (3, 3)
        assert torch.isfinite(made.all_pairs(**own)).all()
    with pytest.raises(InputError, match="no candidate is called 'best'"):
        model.candidate("best", base)


def test_cross_attention_is_its_definition(monkeypatch):
    monkeypatch.setattr(bench, "TOGETHER", 2)  # of three images
    given = checks.inputs("cpu", SMALL, batch=3, exact=False)
    patches, text = given["patches"], given["sparse"]
    found = bench.cross_attention(patches, text)
    for t in range(3):
        w = torch.nn.functional.normalize(text.words[t, text.real[t]], dim=-1)
        for b in range(3):
            v = torch.nn.functional.normalize(patches[b], dim=-1)
            seen = (9 * w @ v.T).softmax(-1) @ v
            shown = (9 * v @ w.T).softmax(-1) @ w
            wanted = torch.cosine_similarity(seen, w).mean()
            wanted = wanted + torch.cosine_similarity(shown, v).mean()
            assert float((found[t, b] - wanted).abs()) < 1e-5


def test_tokens_look_for_words_and_words_for_tokens():
    A = torch.tensor([[[[0.2, 0.4], [0.9, 0.1]]]])  # (T, B, J, W)
    real = torch.ones(1, 2, dtype=torch.bool)
    assert float(core.alignment(A, real, None)) == pytest.approx((0.4 + 0.9) / 2 + (0.9 + 0.4) / 2)


def test_captions_of_one_score_meet_an_image_under_one_draw():
    config = mended(dim=32, patches=16, aggregate=0.5, dense=False, beta=0.0)
    given = checks.inputs("cpu", SMALL)
    torch.manual_seed(0)
    made = Seps(config).double().train()
    captions = given["sparse"]
    first = made(given["patches"], captions).masks[0]  # (1, B, N)
    again = made(given["patches"], captions).masks[0]
    assert len(captions.words) > 1
    assert first.shape == (1, len(given["patches"]), 16)
    assert not torch.equal(first, again)
    guided = torch.rand(2, 16, dtype=torch.float64).expand(3, 2, 16)  # (T, B, N), of equal guides
    drawn = made.choose(guided)  # (T, B, N)
    assert torch.equal(drawn, drawn[:1].expand(3, 2, 16))
