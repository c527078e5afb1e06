"""Hard-Concrete gates: training says which heads a model can do without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.heads.batches import as_batches, in_mode, trainable
from headwise.heads.importance import Loss, gradients, loss_of
from headwise.models.edit import Call, Edit, count_of, in_force
from headwise.models.sites import find_sites, refuse_if_outside, whole
from headwise.models.using import held

__all__ = ["Gates", "train_gates"]

# The stretch and the temperature of Louizos et al. 2018, section 4: a gate is exactly 0 or 1 with positive probability.
_LOW, _HIGH, _TEMPERATURE = -0.1, 1.1, 2 / 3
_OPEN = 2.0  # log alpha at the start: a gate is open with probability 0.96


@dataclass(frozen=True, eq=False)
class Gates:
    """Trained gates.

    Attributes:
        open: probability that a gate is not 0, float32 [L, H]; NaN where a layer has no such head or never ran.
        value: what the gate is taken to be when training is over, in [0, 1]: that of u = 1/2 at a temperature of 1,
            clamp(sigmoid(log alpha) * (zeta - gamma) + gamma, 0, 1); NaN likewise.
        losses: the loss of each step, without the penalty.
        sites: names of the layers.
    """

    open: Tensor
    value: Tensor
    losses: tuple[float, ...]
    sites: tuple[str, ...]

    def closed(self) -> dict[str, list[int]]:
        """The heads whose gate is 0, as ``hw.prune`` and ``hw.ablate`` take them."""
        found = {site: (row == 0).nonzero()[:, 0].tolist() for site, row in zip(self.sites, self.value, strict=True)}
        return {site: heads for site, heads in found.items() if heads}


def train_gates(
    model: nn.Module,
    batches: Any,
    loss: Loss | None = None,
    *,
    penalty: float = 0.01,
    steps: int = 200,
    lr: float = 0.1,
    seed: int = 0,
) -> Gates:
    """Trains one gate a head to close where the loss allows it; the model's weights stay as they are.

    With u uniform in (0, 1), a gate of parameter log alpha is

        s = sigmoid((log u - log(1 - u) + log alpha) / beta)      g = clamp(s * (zeta - gamma) + gamma, 0, 1)

    and what is minimised is  loss(g) + penalty * sum over heads of P(g != 0),
    P(g != 0) = sigmoid(log alpha - beta * log(-gamma / zeta)), with gamma = -0.1, zeta = 1.1, beta = 2/3.

    Args:
        model: a transformers model; one that is not in use is used for the duration. It runs as in eval mode.
        batches: a batch, or a list of them, taken in turn.
        loss: as of ``hw.importance``.
        penalty: in units of the loss, for each head that is expected to be open: heads worth less than it close.
        steps: of Adam.
        lr: its learning rate, of log alpha.
        seed: of the noise u.

    Returns:
        The gates; ``.closed()`` are the heads to prune.

    Raises:
        SpecError: a penalty, number of steps or learning rate that is not positive; a loss without gradient.
        UnsupportedError: the model's attention does not go through transformers' interface.

    Source: Voita et al. 2019 (arXiv 1905.09418), section 6; Louizos et al. 2018 (arXiv 1712.01312).

    Example:
        >>> import torch
        >>> from headwise.heads import train_gates
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> gates = train_gates(model, torch.randint(0, 16, (4, 8)), penalty=10.0, steps=100)
        >>> gates.closed()  # at this price no head is worth its gate
        {'transformer.h.0.attn': [0, 1], 'transformer.h.1.attn': [0, 1]}
    """
    refuse_if_outside("train_gates", model)
    several = as_batches("train_gates", "batches", batches)
    if whole(seed) is None:
        raise SpecError(sentence("train_gates", f"seed is {seed!r}", "it is a whole number"))
    for name, number in (("penalty", penalty), ("steps", steps), ("lr", lr)):
        counted = isinstance(number, int) and not isinstance(number, bool)
        if not (counted or (isinstance(number, float) and name != "steps")) or not 0 < number < math.inf:
            rule = "it is a whole number, 1 or more" if name == "steps" else "it is a positive number"
            raise SpecError(sentence("train_gates", f"{name} is {number!r}", rule))
    with in_mode(model, training=False), torch.inference_mode(False):
        edits, losses = _train(model, several, loss, penalty, steps, lr, seed)
    most = max(len(edit.log_alpha) for edit in edits)
    opened, value = (torch.full((len(edits), most), torch.nan, dtype=torch.float32, device="cpu") for _ in range(2))
    for at, edit in enumerate(edits):
        if not edit.ran:  # only the penalty moved its gates
            continue
        opened[at, : len(edit.log_alpha)] = edit.probability().detach()
        value[at, : len(edit.log_alpha)] = _stretched(edit.log_alpha.sigmoid()).detach()
    return Gates(opened, value, tuple(losses), tuple(edit.site for edit in edits))


def _train(
    model: nn.Module, batches: Sequence[Any], loss: Loss | None, penalty: float, steps: int, lr: float, seed: int
) -> tuple[list[_Concrete], list[float]]:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    modules = find_sites(model)
    device = next(model.parameters()).device
    edits = [_Concrete(site, count_of(module) or 0, device, generator) for site, module in modules.items()]
    alphas = [edit.log_alpha for edit in edits]
    optimizer = torch.optim.Adam(alphas, lr=lr)
    losses = []
    pairs = list(zip(modules.values(), edits, strict=True))
    several = [trainable(batch) for batch in batches]
    with held(model), in_force(pairs, everywhere=False) as told, torch.enable_grad():
        for step in range(steps):
            for edit in edits:
                edit.draw()
            value = loss_of("train_gates", model, several[step % len(several)], loss)
            pull = torch.autograd.grad(penalty * torch.cat([edit.probability() for edit in edits]).sum(), alphas)
            for alpha, grad, by in zip(alphas, gradients("train_gates", value, alphas), pull, strict=True):
                alpha.grad = by if grad is None else by + grad
            optimizer.step()
            losses.append(float(value.detach()))
    for edit in edits:
        edit.ran = edit.site in told.backends
    return edits, losses


class _Concrete(Edit):
    """The gates of one layer."""

    def __init__(self, site: str, heads: int, device: torch.device, generator: torch.Generator) -> None:
        super().__init__("train_gates", site, ())
        self.log_alpha = torch.full((heads,), _OPEN, device=device, requires_grad=True, dtype=torch.float32)
        self.generator = generator
        self.gate = torch.ones(heads, device=device, dtype=torch.float32)
        self.ran = False

    def draw(self) -> None:
        """New noise for the next step."""
        u = (
            torch.rand(len(self.log_alpha), generator=self.generator, dtype=torch.float32, device="cpu")
            .clamp(1e-6, 1 - 1e-6)
            .to(self.log_alpha.device)
        )
        self.gate = _stretched(((u.log() - (-u).log1p() + self.log_alpha) / _TEMPERATURE).sigmoid())

    def probability(self) -> Tensor:
        """Of each gate, that it is not 0."""
        return (self.log_alpha - _TEMPERATURE * math.log(-_LOW / _HIGH)).sigmoid()

    def after(self, call: Call, out: Tensor) -> Tensor:
        return out * self.gate.to(out.dtype)[:, None, None]


def _stretched(s: Tensor) -> Tensor:
    return (s * (_HIGH - _LOW) + _LOW).clamp(0, 1)
