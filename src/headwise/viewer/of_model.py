"""One forward of a model that leaves everything a viewer shows: patterns, scores of heads, small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headwise.heads import Reading, score_heads
from headwise.models.trace import Trace, tracing
from headwise.observers import Map
from headwise.viewer.axes import Tokens
from headwise.viewer.scene import SIDE, Scene

__all__ = ["Ran", "run_model"]

_MAP = "view:map"


class Ran(NamedTuple):
    """What one forward left.

    Attributes:
        scene: what there is to look at.
        trace: its patterns.
        reading: what each head does.
    """

    scene: Scene
    trace: Trace
    reading: Reading


def run_model(
    model: nn.Module,
    ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    labels: Sequence[str] | None = None,
    special: Sequence[int] = (),
    title: str = "",
    subtitle: str = "",
) -> Ran:
    """Runs a model once on a text; its patterns, its heads' scores and the small maps come out of the same pass.

    Args:
        model: of transformers, one whose heads attend from a text to itself.
        ids: token ids, int64 [1, T].
        attention_mask: [1, T], 1 = a real token; None = all are.
        labels: the text of each token; None = positions.
        special: positions that are no text. Those behind the first are separators to the scores.
        title: of the page.
        subtitle: the line below it.

    Returns:
        The scene, the trace and the reading. Memory: q, k, v and a few numbers a row of every head, O(T).

    Raises:
        SpecError, ShapeError, UnsupportedError: as of ``score_heads``; labels that do not match the ids.

    Example:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from headwise.viewer.of_model import run_model
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> ran = run_model(model, torch.tensor([[3, 4, 5, 3, 4, 6]]), labels=list("abcabd"))
        >>> ran.scene.pattern(0, 1).shape
        torch.Size([1, 2, 6, 6])
    """
    separators = torch.zeros_like(ids, dtype=torch.bool)
    separators[:, [at for at in special if at > 0]] = True
    side = min(SIDE, ids.shape[-1])
    small = Map(side, side, name=_MAP)
    with tracing(model) as trace:
        reading = score_heads(model, ids, attention_mask, separators=separators, observe=[small])
    places = {site: n for n, site in enumerate(trace.sites)}
    heads = [replace(head, layer=places[head.site]) for head in reading.heads]
    trace.notes["heads"] = [asdict(head) for head in heads]
    scene = Scene.of(
        {"run": {site: trace.pattern(site) for site in trace.sites}},
        tokens=None if labels is None else Tokens(labels, special),
        heads=heads,
        maps={site: reading.seen[site][_MAP] for site in trace.sites},
        title=title,
        subtitle=subtitle,
    )
    return Ran(scene, trace, reading)
