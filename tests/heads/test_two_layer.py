"""The model that comes with headwise does what it was trained to show: layer 0 looks back one token, layer 1 copies."""

from __future__ import annotations

import pydoc_data.topics
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import headwise as hw

TOKENS, TIMES, EXAMPLES = 25, 4, 10
FOLDER = Path(hw.__file__).parent / "models" / "weights" / "two-layer"


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    return hw.load("two-layer")


@pytest.fixture(scope="module")
def repeats(loaded: tuple[Any, Any]) -> Tensor:
    """The start token, then 25 different random tokens four times over; [10, 101]."""
    model, tokenizer = loaded
    generator = torch.Generator().manual_seed(20)
    drawn = [torch.randperm(model.config.vocab_size - 300, generator=generator)[:TOKENS] + 300 for _ in range(EXAMPLES)]
    body = torch.stack(drawn).repeat(1, TIMES)
    return torch.cat([torch.full((EXAMPLES, 1), tokenizer.bos_token_id), body], 1)


@pytest.fixture(scope="module")
def dense(loaded: tuple[Any, Any], repeats: Tensor) -> Tensor:
    """Every pattern on the repeats by transformers' own eager code, [L, B, H, T, T]."""
    model, _ = loaded
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = torch.stack(model(repeats, output_attentions=True).attentions).double()
    model.set_attn_implementation("sdpa")
    return weights


def looked_for(ids: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """Bool [B, T, T]: keys ``shift`` after an earlier copy of the query's token; [T, T]: keys that it sees."""
    B, T = ids.shape
    wanted = torch.zeros(B, T, T, dtype=torch.bool)
    for i in range(T):
        for j in range(i):
            if j + shift <= i:
                wanted[:, i, j + shift] |= ids[:, j] == ids[:, i]
    return wanted, torch.ones(T, T).tril().bool()


@pytest.fixture(scope="module")
def prefix_matching(dense: Tensor, repeats: Tensor) -> tuple[Tensor, float]:
    """[L, H] mean attention from a repeated token to what followed its copies, and what a uniform head has."""
    wanted, causal = looked_for(repeats, 1)
    queries = slice(TOKENS + 1, None)
    score = (dense * wanted[None, :, None]).sum(-1)[..., queries].mean((1, 3))
    chance = (wanted.sum(-1) / causal.sum(-1))[:, queries].double().mean()
    return score, float(chance)


def loss_on_copies(model: Any, ids: Tensor) -> float:
    """Mean loss of the second to fourth copy in nats."""
    with torch.no_grad():
        logits = model(ids).logits[:, TOKENS:-1].double()
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, TOKENS + 1 :].flatten()))


def loss_without(model: Any, ids: Tensor, layer: int, heads: list[int]) -> float:
    """The same with the outputs of heads of one layer set to zero, by a hook of torch's own."""
    projection = model.model.layers[layer].self_attn.o_proj
    size = model.config.head_dim

    def zero(_: Any, args: tuple[Tensor]) -> tuple[Tensor]:
        z = args[0].clone()
        for head in heads:
            z[..., head * size : (head + 1) * size] = 0
        return (z,)

    hook = projection.register_forward_pre_hook(zero)
    try:
        return loss_on_copies(model, ids)
    finally:
        hook.remove()


def best_and_others(scores: Tensor, count: int) -> tuple[list[int], list[int]]:
    order = scores[1].argsort(descending=True).tolist()
    return order[:count], order[count:]


def test_heads_of_layer_1_match_prefixes_and_no_head_of_layer_0_does(prefix_matching: tuple[Tensor, float]) -> None:
    score, chance = prefix_matching
    counted = [(i - 1) // TOKENS / (i + 1) for i in range(TOKENS + 1, TOKENS * TIMES + 1)]  # copies over visible keys
    assert chance == pytest.approx(sum(counted) / len(counted))
    assert float(score[1].max()) > 0.5
    assert float(score[1].max()) > 20 * chance
    assert float(score[0].max()) < 4 * chance


def test_a_head_of_layer_0_attends_to_the_token_before(loaded: tuple[Any, Any], dense: Tensor) -> None:
    before = dense.diagonal(offset=-1, dim1=-2, dim2=-1).mean((1, 3))
    assert float(before[0].max()) > 0.5
    assert float(before[1].max()) < float(before[0].max())


def test_the_table_of_heads_says_induction(loaded: tuple[Any, Any], prefix_matching: tuple[Tensor, float]) -> None:
    from headwise.heads import score_heads

    model, tokenizer = loaded
    ids = tokenizer(pydoc_data.topics.topics["typesseq"], return_tensors="pt").input_ids[:, :512]
    kinds = {(head.layer, head.head): head.kind for head in score_heads(model, ids).heads}
    (best,), _ = best_and_others(prefix_matching[0], 1)
    assert kinds[1, best] == "induction"
    assert "previous_token" in {kind for (layer, _), kind in kinds.items() if layer == 0}


def test_observed_in_use_it_scores_what_the_dense_patterns_say(
    loaded: tuple[Any, Any], repeats: Tensor, prefix_matching: tuple[Tensor, float]
) -> None:
    model, _ = loaded
    before = torch.nn.functional.pad(repeats[:, :-1], (1, 0), value=-1)
    with hw.observe(model, hw.MassWhere(repeats, before)) as seen, torch.no_grad():
        model(repeats)
    observed = seen["mass_where"][..., TOKENS + 1 :].mean((1, 3)).double()
    torch.testing.assert_close(observed, prefix_matching[0], rtol=0, atol=1e-5)


def test_copies_are_told_and_it_is_the_induction_heads_that_tell_them(
    loaded: tuple[Any, Any], repeats: Tensor, prefix_matching: tuple[Tensor, float]
) -> None:
    model, _ = loaded
    whole = loss_on_copies(model, repeats)
    best, others = best_and_others(prefix_matching[0], 2)
    without_best = loss_without(model, repeats, 1, best) - whole
    without_others = loss_without(model, repeats, 1, others[-2:]) - whole
    assert whole < 3  # a guess among 1,024 is 6.9
    assert without_best > 2
    assert without_best > 4 * abs(without_others)


LISTS = (
    ("The packages are: bash, perl, python3, apache2, sqlite3, exim4.\n", "The packages are: bash, perl,"),
    ("alpha beta gamma delta epsilon zeta eta theta ", "alpha beta gamma"),
    ("mount, umount, fsck, mkfs, lsblk, swapon; ", "mount, umount,"),
    ("one = 3; two = 7; three = 1; four = 9; ", "one = 3; two ="),
)


def test_a_repeated_list_goes_on(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    hw.use(model)
    right = []
    for text, start in LISTS:
        prompt = tokenizer(text * 2 + start, return_tensors="pt").input_ids
        made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False)
        goes_on = tokenizer.decode(made[0, prompt.shape[1] :])
        wanted = (text * 2)[len(start) :][: len(goes_on)]
        right.append(goes_on == wanted)
    hw.restore(model)
    assert sum(right) >= 3, right


def test_most_copied_tokens_are_its_first_guess(loaded: tuple[Any, Any], repeats: Tensor) -> None:
    model, _ = loaded
    with torch.no_grad():
        right = model(repeats).logits[:, :-1].argmax(-1) == repeats[:, 1:]
    first, later = right[:, :TOKENS].double().mean(), right[:, TOKENS + 1 : 2 * TOKENS].double().mean()
    assert float(first) < 0.05
    assert float(later) > 0.7


def test_the_loss_of_prose_is_that_of_a_trained_model(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    told = []
    for topic in ("exceptions", "naming", "numbers", "typesseq", "customization", "formatstrings"):
        ids = tokenizer(pydoc_data.topics.topics[topic], return_tensors="pt").input_ids[:, :512]
        with torch.no_grad():
            told.append(float(model(ids, labels=ids).loss))
    assert sum(told) / len(told) < 4, told  # the frequencies of the tokens alone give about 6


def test_plain_transformers_reads_the_folder(loaded: tuple[Any, Any], repeats: Tensor) -> None:
    model, tokenizer = loaded
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors is a no-op")
        plain = transformers.AutoModelForCausalLM.from_pretrained(FOLDER)
    assert plain.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(plain(repeats).logits, model(repeats).logits, rtol=0, atol=1e-4)
    its = transformers.AutoTokenizer.from_pretrained(FOLDER)
    assert its("A list, a list.").input_ids == tokenizer("A list, a list.").input_ids
