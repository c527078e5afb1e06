"""Where TransformerLens and headwise give the same numbers for one model, and where and why they do not.

Differences that the tests below make up for:

- Composition. TransformerLens gives the ratio of norms itself, headwise takes off what random matrices give unless
  ``subtract=False``. Where a head cannot read another (a layer that is not later) it has 0, headwise NaN.
- Both read raw weights here. TransformerLens's ``enable_compatibility_mode()`` folds norms and centres what is
  written, which changes the ratios; ``fold_norm=True`` is the part of it that concerns what heads read.
- detect_head, "mul": sum(A * D) / sum(A), a mean over all T queries, since rows of A sum to 1. ``Offsets`` averages
  over the T - 1 queries that have a previous token, so it is larger by T / (T - 1).
- detect_head's induction pattern is the duplicate one shifted by one key, with the diagonal in it: a query whose token
  equals the one before it counts attention to itself. ``MassWhere`` counts keys before the query alone.
- detect_head prepends the start token to a text by default. Here both are given the same ids.
- Patterns with T x T cells a head are formed there for every layer; here no pattern is.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.heads.circuits import composition, ov, qk

pytest.importorskip("transformer_lens", reason="TransformerLens, whose numbers are compared with, is not installed")

IDS = torch.tensor([[5, 9, 3, 5, 9, 7, 3, 3, 8, 5, 9, 11, 7, 3, 5, 2, 9]])


def tokenizer() -> Any:
    """Booting asks for one; every test gives ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({str(n): n for n in range(64)}, unk_token="0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="0", pad_token="0", unk_token="0")


def lens(model: Any) -> Any:
    """The same weights in TransformerLens."""
    from transformer_lens.model_bridge import TransformerBridge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.config.architectures = [type(model).__name__]
        bridge = TransformerBridge.boot_transformers("tiny", hf_model=model, tokenizer=tokenizer(), device="cpu")
    bridge.to_tokens = lambda ids: ids
    return bridge


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("kind", ["q", "k", "v"])
def test_composition(zoo: Any, name: str, kind: str) -> None:
    ours = composition(zoo.model(name), kind, subtract=False)
    theirs = lens(zoo.model(name)).all_composition_scores(kind.upper()).scores
    torch.testing.assert_close(ours.nan_to_num(0.0), theirs.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_matrices(zoo: Any, name: str) -> None:
    model = zoo.model(name)
    theirs = lens(zoo.model(name))
    for head in range(4):
        torch.testing.assert_close(qk(model, 1, head).to_dense(), theirs.QK[1, head].AB.detach(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(ov(model, 1, head).to_dense(), theirs.OV[1, head].AB.detach(), atol=1e-5, rtol=1e-5)


def ours(model: Any, pattern: str) -> Tensor:
    """detect_head's three scores from statistics of patterns that are not stored, [L, H]."""
    T = IDS.shape[1]
    trace = hw.trace(model, input_ids=IDS)
    found = []
    for layer in range(len(trace.sites)):
        p = trace.pattern(layer)
        if pattern == "previous_token_head":
            found.append(p.offsets(1)[0, :, 1] * (T - 1) / T)
        elif pattern == "duplicate_token_head":
            found.append(p.mass_where(IDS, IDS)[0].mean(-1))
        else:
            shifted = torch.cat([torch.full((1, 1), -1), IDS[:, :-1]], 1)
            own = torch.stack([p[0, :, i, i] * float(shifted[0, i] == IDS[0, i]) for i in range(T)], -1)
            found.append((p.mass_where(IDS, shifted)[0] + own).mean(-1))
    return torch.stack(found)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("pattern", ["previous_token_head", "duplicate_token_head", "induction_head"])
def test_detect_head(zoo: Any, name: str, pattern: str) -> None:
    from transformer_lens.head_detector import detect_head

    theirs = detect_head(lens(zoo.model(name)), IDS, pattern)
    torch.testing.assert_close(ours(zoo.model(name), pattern), theirs.detach(), atol=1e-5, rtol=1e-5)
