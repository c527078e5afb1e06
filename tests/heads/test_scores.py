"""Scores against whole eager patterns, chance levels against whole uniform patterns, heads built to be one kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnsupportedError
from headwise.heads import KINDS, kind_of, lift, score_heads
from headwise.heads.even import Even
from headwise.heads.scores import LOCAL, _Table, share_questions

IDS = torch.tensor([[5, 9, 3, 5, 9, 7, 3, 3, 8, 5, 9, 11, 7, 3, 5, 2, 9]])
SIZES = {"vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def model_of(family: str, **more: Any) -> Any:
    """A tiny random model whose rows are not flat."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, "max_position_embeddings": 64, **more})
    if family != "Bert":
        config.num_key_value_heads = more.get("num_key_value_heads", 2)
    model = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and any(part in name for part in ("q_proj", "k_proj", "query", "key")):
                parameter.mul_(25)
    return model


def dense(model: Any, ids: Tensor, mask: Tensor | None) -> Tensor:
    """Eager patterns [L, B, H, T, T] in float64, rows of padding emptied."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    p = torch.stack(found).double()
    return p if mask is None else p * mask[None, :, None, :, None]


def textbook(
    p: Tensor, visible: Tensor, ids: Tensor, real: Tensor, separators: Tensor
) -> dict[str, tuple[float, float]]:
    """Score and chance of one head by loops over a whole pattern p [B, T, T]."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    B, T, _ = p.shape
    for b in range(B):
        first = int(real[b].int().argmax())
        for i in range(T):
            seen = [j for j in range(T) if visible[b, i, j]]
            sets = {
                "previous_token": [j for j in seen if j == i - 1],
                "next_token": [j for j in seen if j == i + 1],
                "duplicate_token": [j for j in seen if first < j < i and ids[b, j] == ids[b, i]],
                "induction": [j for j in seen if 0 < j < i and real[b, j - 1] and ids[b, j - 1] == ids[b, i]],
                "local": [j for j in seen if abs(i - j) < LOCAL],
                "first_token": [j for j in seen if j == first],
                "separator": [j for j in seen if separators[b, j]],
            }
            for kind, keys in sets.items():
                if 0 < len(keys) < len(seen):
                    found[kind].append((float(p[b, i, keys].sum()), len(keys) / len(seen)))
            if len(seen) >= 2:
                row = p[b, i, seen]
                nats = float(-(row * row.clamp(min=1e-300).log()).sum())
                found["broad"].append((nats / float(torch.tensor(float(len(seen))).log()), 1.0))
    return {
        kind: (sum(s for s, _ in pairs) / len(pairs), sum(c for _, c in pairs) / len(pairs))
        for kind, pairs in found.items()
        if pairs
    }


CASES = {
    "causal": ("Llama", {}, "none"),
    "window": ("Mistral", {"sliding_window": 5}, "none"),
    "left padding": ("Llama", {}, "left"),
    "encoder": ("Bert", {}, "none"),
    "encoder, right padding": ("Bert", {}, "right"),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_and_chances_equal_those_of_whole_patterns(case: str) -> None:
    family, more, padding = CASES[case]
    model = model_of(family, **more)
    T = IDS.shape[1]
    ids, mask = torch.cat([IDS, IDS.flip(1)]), None
    real = torch.ones_like(ids, dtype=torch.bool)
    if padding != "none":
        real[1, slice(0, 4) if padding == "left" else slice(T - 4, T)] = False
        ids, mask = ids.masked_fill(~real, 0), real.long()
    separators = (ids == 7) & real
    i, j = torch.arange(T)[:, None], torch.arange(T)
    visible = real[:, None, :] & real[:, :, None]
    if family != "Bert":
        visible = visible & (j <= i) & (i - j < more.get("sliding_window", T))
    p = dense(model, ids, mask)
    reading = score_heads(model, ids, mask, separators=separators)
    assert reading.causal == (family != "Bert")
    assert len(reading.heads) == 8
    for head in reading.heads:
        wanted = textbook(p[head.layer, :, head.head], visible, ids, real, separators)
        assert set(head.scores) == set(head.chance) == set(wanted)
        for kind, (score, chance) in wanted.items():
            assert head.scores[kind] == pytest.approx(score, abs=1e-4 if kind == "broad" else 1e-5), kind
            assert head.chance[kind] == pytest.approx(chance, abs=1e-6), kind
    assert max(head.scores["first_token"] for head in reading.heads) > 0.1  # rows are no flat ones


def test_what_a_text_or_a_mask_cannot_show_is_absent() -> None:
    heads = score_heads(model_of("Llama"), torch.arange(12)[None]).heads
    assert set(heads[0].scores) == {"previous_token", "first_token", "local", "broad"}
    assert heads[0].lift("induction") == 0
    assert "next_token" in score_heads(model_of("Bert"), torch.arange(12)[None]).heads[0].scores
    # eight tokens or fewer are all near each other: no choice between near and far
    assert "local" not in score_heads(model_of("Llama"), torch.arange(LOCAL)[None]).heads[0].scores


def test_the_previous_token_score_is_the_entry_of_offsets() -> None:
    reading = score_heads(model_of("Llama"), IDS, observe=[hw.Offsets(1)])
    for head in reading.heads:
        entry = reading.seen["offsets"][head.layer, 0, head.head, 1]
        assert head.scores["previous_token"] == pytest.approx(float(entry), abs=1e-6)


def built(kind: str, ids: Tensor) -> tuple[Tensor, Tensor, tuple[Any, ...]]:
    """q, k [1, 1, T, T'] and score rules of a head that does nothing but one thing."""
    T, high = ids.shape[1], 100.0
    tokens = torch.nn.functional.one_hot(ids[0], 16).float()
    places = torch.eye(T)
    shifted = torch.zeros_like(tokens)
    shifted[1:] = tokens[:-1]
    q, k = {
        "previous_token": (places.roll(-1, 1), places),
        "next_token": (places.roll(1, 1), places),
        "duplicate_token": (tokens, torch.cat([torch.zeros_like(tokens[:1]), tokens[1:]])),
        "induction": (tokens, shifted),
        "first_token": (torch.ones(T, 1), places[:, :1]),
        "broad": (torch.zeros(T, 1), torch.zeros(T, 1)),
    }[kind]
    not_itself = (hw.Bias(-high * torch.eye(T)[None, None]),) if kind in ("duplicate_token", "induction") else ()
    return high * q[None, None], k[None, None], not_itself


def table_of(shares: Any, *operands: Tensor, **options: Any) -> _Table:
    """The scores of one attention call."""
    asked = [*shares.values(), hw.Entropy(name="score:entropy")]
    attended = hw.attend(*operands, observe=asked, **options)
    return _Table.of(shares, attended.seen, Even(list(shares.values())).of(attended.pattern))


@pytest.mark.parametrize("backend", ["blocked", "reference"])
@pytest.mark.parametrize(
    "kind", ["previous_token", "next_token", "duplicate_token", "induction", "first_token", "broad"]
)
def test_a_head_built_to_be_one_kind_is_that_kind(kind: str, backend: str) -> None:
    q, k, rules = built(kind, IDS)
    shares = share_questions(IDS, None, None)
    mask = None if kind == "next_token" else hw.Causal()
    (head,) = table_of(shares, q, k, q, mask=mask, scores=rules, scale=1.0, backend=backend).heads(0, "site")
    assert head.scores[kind] == pytest.approx(1, abs=1e-5)
    assert head.kind == kind


def test_a_uniform_head_scores_its_chance_level() -> None:
    shares = share_questions(IDS, None, IDS == 7)
    x = torch.zeros(1, 3, IDS.shape[1], 4)
    for mask in (None, hw.Causal(), hw.Causal() & hw.Window(6, 0), hw.Padding(torch.tensor([11]))):
        table = table_of(shares, x, x, x, mask=mask)
        assert table.scores.keys() == table.chances.keys()
        for kind in table.scores:
            torch.testing.assert_close(table.scores[kind], table.chances[kind], atol=1e-6, rtol=0)


def test_a_mask_that_differs_by_head_has_a_chance_level_by_head() -> None:
    T = IDS.shape[1]
    keep = torch.ones(2, T, T, dtype=torch.bool).tril()
    keep[1] &= torch.ones(T, T, dtype=torch.bool).triu(-4)
    shares = share_questions(IDS, None, None)
    x = torch.zeros(1, 2, T, 4)
    even = Even(list(shares.values())).of(hw.Pattern(x, x, mask=hw.Dense(keep)))
    torch.testing.assert_close(even.visible[0], keep.sum(-1).double())
    near = (torch.arange(T)[:, None] - torch.arange(T)).abs() < LOCAL
    torch.testing.assert_close(even.count("score:local")[0], (keep & near).sum(-1).double())


def test_kinds_claim_heads_in_the_order_that_is_documented() -> None:
    even = {"previous_token": 0.1, "induction": 0.05, "local": 0.2, "first_token": 0.1, "broad": 1.0}
    assert kind_of({**even, "broad": 0.5}, even) == "mixed"
    assert kind_of(even, even) == "broad"
    assert kind_of({**even, "first_token": 0.8}, even) == "first_token"
    assert kind_of({**even, "first_token": 0.8, "induction": 0.3}, even) == "induction"
    assert kind_of({**even, "local": 0.9, "previous_token": 0.2}, even) == "local"
    assert kind_of({**even, "local": 0.9, "previous_token": 0.5}, even) == "previous_token"
    unsure = dict.fromkeys(even, 0.1)
    assert kind_of({**even, "induction": 0.3, "broad": 0.5}, even, unsure) == "mixed"
    assert kind_of({**even, "induction": 0.4, "broad": 0.5}, even, unsure) == "induction"
    few = dict.fromkeys(even, float("inf"))
    assert kind_of({**even, "induction": 1.0}, even, few) == "mixed"
    assert kind_of(even, even, {**few, "broad": 0.1}) == "broad"
    assert lift(1.0, 0.3) == 1
    assert lift(1.0, 1.0) == 0


def test_the_standard_error_is_that_of_the_textbook() -> None:
    model = model_of("Llama")
    previous = dense(model, IDS, None).diagonal(offset=-1, dim1=-2, dim2=-1)[:, 0]  # [L, H, T - 1]
    above = previous - 1 / torch.arange(2, IDS.shape[1] + 1)
    wanted = above.std(-1) / above.shape[-1] ** 0.5
    for head in score_heads(model, IDS).heads:
        assert head.error["previous_token"] == pytest.approx(float(wanted[head.layer, head.head]), abs=1e-5)


def test_a_short_text_makes_no_induction_head() -> None:
    # one repeat, and a head that looks for it: three queries are no evidence
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2, 3]])
    q, k, rules = built("induction", ids)
    shares = share_questions(ids, None, None)
    (head,) = table_of(shares, q, k, q, mask=hw.Causal(), scores=rules, scale=1.0).heads(0, "site")
    assert head.scores["induction"] == pytest.approx(1, abs=1e-5)
    assert head.error["induction"] == float("inf")
    assert head.kind != "induction"


def test_what_cannot_be_scored_is_refused() -> None:
    model = model_of("Llama")
    with pytest.raises(SpecError, match="1 tokens"):
        score_heads(model, torch.tensor([[1]]))
    with pytest.raises(ShapeError, match=r"attention_mask.*\[B=1,T=17\].*\[B=1,T=3\]"):
        score_heads(model, IDS, torch.ones(1, 3))
    with pytest.raises(ShapeError, match="input_ids"):
        score_heads(model, IDS[0])
    for ids in (IDS + 8, IDS - 6):
        with pytest.raises(SpecError, match=r"input_ids holds token (17|-1); LlamaModel knows the tokens 0 to 15"):
            score_heads(model, ids)
    with pytest.raises(SpecError, match="input_ids is a list"):
        score_heads(model, IDS.tolist())  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="score:entropy"):
        score_heads(model, IDS, observe=[hw.Entropy(name="score:entropy")])
    config = transformers.T5Config(vocab_size=16, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(UnsupportedError, match="get_encoder"):
        score_heads(transformers.T5Model(config), IDS)
    with pytest.raises(UnsupportedError):
        score_heads(torch.nn.Linear(2, 2), IDS)


def test_scoring_leaves_the_model_as_it_was() -> None:
    model = model_of("Llama")
    with torch.no_grad():
        before = model(IDS).last_hidden_state
        score_heads(model, IDS)
        after = model(IDS).last_hidden_state
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(before, after)
