"""SmolLM2 and MiniLM with their real weights: every observer on every head against eager's own probabilities.

Tolerances are the issue's, in float32: 1e-5 for probabilities and means of them, 1e-4 for entropies and for sums over
queries (eager's own float32 probabilities are that far from float64), 2e-4 for logits.
"""

from __future__ import annotations

from pydoc_data.topics import topics

import pytest
import torch

import headwise as hw

pytestmark = pytest.mark.xdist_group("real weights")

CLOSE, SUMMED, LOGITS = 1e-5, 1e-4, 2e-4


def far(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference; shapes must agree."""
    assert found.shape == wanted.shape
    return float((found.double() - wanted.double()).abs().max())


@pytest.fixture(scope="module")
def smollm2():
    return hw.load("smollm2")


@pytest.fixture(scope="module")
def text(smollm2):
    """256 tokens of real English."""
    _, tokenizer = smollm2
    return tokenizer(" ".join(topics[name] for name in sorted(topics)), return_tensors="pt").input_ids[:, :256]


@pytest.fixture(scope="module")
def eager(smollm2, text):
    """Logits and probabilities [L, B, H, T, S] of transformers' eager attention."""
    model, _ = smollm2
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(text, output_attentions=True)
    model.set_attn_implementation(before)
    return out.logits, torch.stack(out.attentions)


def shifted(ids: torch.Tensor) -> torch.Tensor:
    """The token before each key, -1 for the first."""
    return torch.nn.functional.pad(ids[:, :-1], (1, 0), value=-1)


def test_every_observer_on_every_head_of_smollm2_equals_eagers_own_probabilities(smollm2, text, eager):
    model, _ = smollm2
    logits, p = eager
    targets = torch.stack([torch.zeros(256, dtype=torch.long), (torch.arange(256) - 1)], dim=-1)
    words = torch.arange(256) // 5
    observers = [
        hw.Entropy(),
        hw.Received(),
        hw.Offsets(40),
        hw.TopKeys(8),
        hw.MassOn(targets),
        hw.MassWhere(text, text, name="duplicate"),
        hw.MassWhere(text, shifted(text), name="induction"),
        hw.Segments(words, words),
        hw.Map(64, 64),
        hw.Crop(slice(100, 140), slice(0, 140)),
    ]
    with hw.observe(model, *observers) as seen, torch.no_grad():
        model(text)
    i, j = torch.arange(256)[:, None], torch.arange(256)
    wide = p.double()
    assert far(seen["crop"], p[..., 100:140, 0:140]) <= CLOSE
    assert far(seen["entropy"], torch.special.entr(wide).sum(-1)) <= SUMMED
    assert far(seen["received"], wide.sum(-2)) <= SUMMED
    offsets = torch.stack([wide.diagonal(-d, -2, -1).mean(-1) for d in range(41)], dim=-1)
    assert far(seen["offsets"], offsets) <= CLOSE
    assert far(seen["top_keys"].values[..., 8:, :], wide.topk(8).values[..., 8:, :]) <= CLOSE
    by_index = wide.gather(-1, seen["top_keys"].indices.clamp(min=0))
    assert far(seen["top_keys"].values[..., 8:, :], by_index[..., 8:, :]) <= CLOSE
    mass_on = wide[..., 0] + torch.nn.functional.pad(wide.diagonal(-1, -2, -1), (1, 0))
    assert far(seen["mass_on"], mass_on) <= CLOSE
    same = (text[0][:, None] == text[0]) & (j < i)
    assert far(seen["duplicate"], (wide * same).sum(-1)) <= CLOSE
    follows = (text[0][:, None] == shifted(text)[0]) & (j < i)
    assert far(seen["induction"], (wide * follows).sum(-1)) <= CLOSE
    groups = torch.nn.functional.one_hot(words).double()
    assert far(seen["segments"], groups.T @ wide @ groups) <= SUMMED
    pooled = wide.unflatten(-1, (64, 4)).unflatten(-3, (64, 4)).mean((-3, -1))
    assert far(seen["map"], pooled) <= CLOSE
    hw.use(model)
    with torch.no_grad():
        assert far(model(text).logits, logits) <= LOGITS
    hw.restore(model)


def test_row_facts_and_contributions_of_smollm2_equal_float64_from_the_same_q_k_v(smollm2, text):
    model, _ = smollm2
    trace = hw.trace(model, input_ids=text)
    causal = torch.ones(256, 256).tril().bool()
    for layer, block in enumerate(model.model.layers):
        pattern = trace.pattern(layer)
        w_o = block.self_attn.o_proj.weight.detach()
        seen = pattern.ask(hw.LogSumExp(), hw.MaxLogit(), hw.Contribution(w_o))
        q, k, v = (x.double() for x in (pattern.q, pattern.k, pattern.v))
        k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
        scores = (q @ k.mT / 8).masked_fill(~causal, float("-inf"))
        carried = torch.einsum("bhse,mhe->bhsm", v, w_o.double().unflatten(1, (9, 64))).norm(dim=-1)
        mass = scores.softmax(-1) * carried[..., None, :]
        lse, largest = scores.logsumexp(-1), scores.amax(-1)
        # float32 products of width 64 are off by a few units of rounding of the largest score
        close = 16 * torch.finfo(torch.float32).eps * max(1.0, float(largest.abs().max()))
        assert far(seen["log_sum_exp"], lse) <= close
        assert far(seen["max_logit"], largest) <= close
        for found, wanted in (
            (seen["contribution"].by_key, mass.sum(-2)),
            (seen["contribution"].by_query, mass.sum(-1)),
        ):
            assert far(found, wanted) <= SUMMED * float(wanted.max())


def test_observing_smollm2_leaves_the_bits_of_its_logits(smollm2, text):
    model, _ = smollm2
    hw.use(model)
    with torch.no_grad():
        alone = model(text).logits
        with hw.observe(model, hw.Entropy(), hw.Received(), hw.TopKeys(3), sites=[3, 17]):
            watched = model(text).logits
    hw.restore(model)
    assert torch.equal(alone, watched)


def test_minilm_with_padding_in_the_batch_equals_eager_at_real_tokens():
    model, tokenizer = hw.load("minilm")
    long = " ".join(topics["assert"].split()[:90])
    batch = tokenizer(
        [long, "A short one.", "And one of middling length, to pad otherwise."], padding=True, return_tensors="pt"
    )
    real = batch["attention_mask"].bool()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
    p = torch.stack(out.attentions).double() * real[:, None, :, None]  # padding rows leave every statistic out
    model.set_attn_implementation("sdpa")
    observers = [hw.Entropy(), hw.Received(), hw.Offsets(9, after=9), hw.TopKeys(4), hw.Map(16, 16)]
    with hw.observe(model, *observers) as seen, torch.no_grad():
        watched = model(**batch)
    assert far(watched.last_hidden_state[real], out.last_hidden_state[real]) <= LOGITS
    assert far(seen["entropy"], torch.special.entr(p).sum(-1)) <= SUMMED
    assert far(seen["received"], p.sum(-2)) <= SUMMED
    length = real.sum(-1)
    for at, d in enumerate(range(-9, 10)):
        diagonal = p.diagonal(-d, -2, -1).sum(-1)
        count = (length - abs(d)).clamp(min=0)[:, None]
        wanted = torch.where(count > 0, diagonal / count.clamp(min=1), 0.0)
        assert far(seen["offsets"][..., at], wanted) <= CLOSE
    rows = real & (length >= 4)[:, None]
    found, wanted = seen["top_keys"].values, p.topk(4).values
    assert (
        far(
            found.movedim(2, 3)[:, rows.nonzero()[:, 0], rows.nonzero()[:, 1]],
            wanted.movedim(2, 3)[:, rows.nonzero()[:, 0], rows.nonzero()[:, 1]],
        )
        <= CLOSE
    )
    n = real.shape[1]
    edges = [r * n // 16 for r in range(17)]
    for r in range(16):
        for c in range(16):
            cell = p[..., edges[r] : edges[r + 1], edges[c] : edges[c + 1]].mean((-2, -1))
            assert far(seen["map"][..., r, c], cell) <= CLOSE
