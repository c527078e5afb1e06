"""The experiment on sinks: its attention against a cache fed token by token, and its page against its numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments.sinks import run as experiment
from experiments.sinks.streaming import Kept, attended, losses
from torch import Tensor

import headwise as hw

HOME = Path(experiment.__file__).parent
BASE = 50.0


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """Rows [n,D] turned as complex numbers, the halves of a row being real and imaginary parts."""
    half = x.shape[-1] // 2
    speeds = BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * speeds
    result = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((result.real, result.imag), -1)


def fed_token_by_token(q: Tensor, k: Tensor, v: Tensor, kept: Kept) -> Tensor:
    """One head, [T,D] not turned: a cache of keys as they were projected, turned anew for each query."""
    rows = []
    for i in range(len(q)):
        last = range(max(0, i + 1 - (kept.recent or i + 1)), i + 1)
        held = torch.tensor(sorted({*range(min(kept.sinks, i + 1)), *last}))
        places = torch.arange(len(held)) if kept.positions == "cache" else held
        scores = turned(k[held], places) @ turned(q[i : i + 1], places[-1:])[0] / q.shape[-1] ** 0.5
        rows.append(scores.softmax(-1) @ v[held])
    return torch.stack(rows)


@pytest.mark.parametrize("positions", ["cache", "text"])
@pytest.mark.parametrize(("recent", "sinks"), [(5, 0), (5, 2), (1, 1), (1, 3), (7, 4), (40, 4), (None, 0)])
def test_a_forward_is_the_cache_fed_token_by_token(recent: int | None, sinks: int, positions: Any) -> None:
    torch.manual_seed(0)
    kept = Kept(recent, sinks, positions)
    T, H, kv_heads, D = 23, 4, 2, 8
    q, k = (3 * torch.randn(1, heads, T, D, dtype=torch.float64) for heads in (H, kv_heads))
    v = torch.randn(1, kv_heads, T, 5, dtype=torch.float64)
    rotary = hw.nn.Rotary(base=BASE)
    found = attended(rotary.rotate(q, 0), rotary.rotate(k, 0), v, kept, rotary)
    wanted = [fed_token_by_token(q[0, h], k[0, h // 2], v[0, h // 2], kept) for h in range(H)]
    torch.testing.assert_close(found[0], torch.stack(wanted), rtol=0, atol=1e-12)


def test_positions_differ_only_where_the_cache_is_full() -> None:
    torch.manual_seed(0)
    q, k, v = (3 * torch.randn(1, 1, 12, 8, dtype=torch.float64) for _ in range(3))
    rotary = hw.nn.Rotary(base=BASE)
    ours, theirs = (attended(q, k, v, Kept(4, 2, at), rotary)[0, 0] for at in ("cache", "text"))
    different = (ours - theirs).abs().amax(-1) > 1e-9
    assert different.tolist() == [False] * 6 + [True] * 6


@pytest.fixture(scope="module")
def tiny() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=16,
        vocab_size=32, max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "proj" in name or "embed" in name or "lm_head" in name:
                weight.mul_(12)
    return model


@pytest.mark.parametrize("kept", [Kept(), Kept(6), Kept(6, 2, "text")], ids=lambda kept: kept.name)
def test_losses_of_a_model_are_those_of_its_eager_path_under_a_written_mask(tiny: Any, kept: Kept) -> None:
    ids = torch.randint(0, 32, (25,), generator=torch.Generator().manual_seed(1))
    i, j = torch.arange(24)[:, None], torch.arange(24)
    visible = (j <= i) & ((j < kept.sinks) | (i - j < (kept.recent or 24)))
    written = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]
    with torch.no_grad():
        logits = tiny(input_ids=ids[None, :-1], attention_mask=written, use_cache=False).logits[0]
    wanted = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    torch.testing.assert_close(losses(tiny, ids, kept), wanted, rtol=1e-4, atol=1e-4)
    assert tiny.config._attn_implementation == "eager"


def test_a_model_is_as_before_after_a_failure(tiny: Any) -> None:
    with pytest.raises(IndexError, match="out of range"):
        losses(tiny, torch.tensor([1, 32, 2]), Kept(6, 2))  # 32 is no token
    assert tiny.config._attn_implementation == "eager"


def test_mass_on_the_first_tokens_is_that_of_the_eager_maps(tiny: Any) -> None:
    ids = torch.randint(0, 32, (1, 30), generator=torch.Generator().manual_seed(2))
    found = experiment.mass_on_first(tiny, ids, tokens=20)
    with torch.no_grad():
        maps = torch.stack(tiny(ids[:, :20], output_attentions=True).attentions)[:, 0, :, 10:]  # [L,H,10,20]
    assert found["tokens"] == 20
    for first in (1, 4):
        heads = maps[..., :first].sum(-1).mean(-1)
        assert found[str(first)]["mean"] == pytest.approx(float(heads.mean()), abs=1e-4)
        assert found[str(first)]["heads_over_half"] == pytest.approx(float((heads > 0.5).float().mean()), abs=1e-4)


def test_summaries_are_arithmetic() -> None:
    lost = torch.cat([torch.full((512,), value) for value in (1.0, 2.0, 3.0, 5.0)])
    one = {"text": "t", "name": "0+1024", "recent": 1024, "sinks": 0, "positions": "cache"}
    two = {"text": "t", "name": "4+1020", "recent": 1020, "sinks": 4, "positions": "cache"}
    runs = [{**one, "blocks": experiment.blocks(lost)}, {**two, "blocks": [1.0, 1.0, 1.0, 1.0]}]
    assert experiment.perplexity(runs[0], 1024, 2048) == pytest.approx(math.exp(4))
    more, error = experiment.difference(runs[0], runs[1], 1024, 2048)
    assert (more, error) == pytest.approx((3.0, 1.0))
    late = [row for row in experiment.summary(runs) if row["from"] == 1024]
    assert [(row["perplexity"], row["more"]) for row in late] == [(54.6, 3.0), (2.72, 0.0)]


def test_passages_that_come_again_from_afar() -> None:
    passage, other = list(range(20)), list(range(100, 700))
    ids = passage + other + passage  # the second one begins at 620, its first run of 16 ends at 635
    assert experiment.recurring(ids, apart=619) == [0, 5]
    assert experiment.recurring(ids, apart=620) == [0, 0]


# What is written down


def table(readme: str, text: str) -> dict[str, list[float]]:
    """Rows of the README that begin with a text's name: setting -> the perplexities of the spans."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in readme.splitlines() if "|" in line]
    return {row[1]: [float(x.replace(",", "")) for x in row[2:5]] for row in cells if row[0] == text}


def test_the_page_says_what_the_numbers_say() -> None:
    result = json.loads((HOME / "result.json").read_text())
    readme = (HOME / "README.md").read_text()
    for text in result["texts"]:
        rows = table(readme, text["name"])
        names = [run["name"] for run in result["runs"] if run["text"] == text["name"]]
        assert set(rows) == set(names)
        for name in names:
            mine = [row for row in result["summary"] if (row["text"], row["name"]) == (text["name"], name)]
            assert rows[name] == [row["perplexity"] for row in mine]
    assert experiment.summary(result["runs"]) == result["summary"]
    assert 0 < (HOME / "figure.svg").stat().st_size < 200_000
