"""What is measured at a point of the training: losses, two scores of every head, and composition of heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import headwise as hw
from experiments.induction.contexts import Contexts
from headwise.heads.circuits import composition

__all__ = ["EARLY", "LATE", "Ruler", "chance_of_composition", "composition_of_keys", "losses_by_token"]

EARLY = (40, 61)  #: tokens whose mean loss stands for "the loss of token 50"; the start token is token 0.
LATE = (490, 511)  #: and for "the loss of token 500".
REPEATED, TIMES, EXAMPLES = 25, 4, 10  #: Olsson et al.: 25 random tokens four times, ten examples.
TEXTS = 16  #: held-out contexts over which the previous-token score is averaged.


@dataclass(frozen=True)
class Ruler:
    """Measures a model on texts that stay the same over a training and between models.

    Attributes:
        text: int64 [contexts, length], held-out contexts for losses.
        repeated: int64 [10, 101], random tokens repeated four times behind the start token.
    """

    text: Tensor
    repeated: Tensor

    @classmethod
    def of(cls, contexts: Contexts, count: int, seed: int) -> Ruler:
        """The first ``count`` held-out contexts, and repeats drawn by a seed of their own."""
        generator = torch.Generator().manual_seed(seed)
        return cls(contexts.held_out[:count], contexts.repeats(EXAMPLES, REPEATED, TIMES, generator))

    def measure(self, model: Any) -> dict[str, Any]:
        """Everything that is plotted.

        Args:
            model: a causal model in eval mode or not; it is put back.

        Returns:
            loss, icl in nats; repeated_loss, first_loss: mean loss of the last three and of the first copy of the
            random tokens; prefix_matching, previous_token: [L][H].
        """
        training = model.training
        model.eval()
        with torch.no_grad():
            losses = losses_by_token(model, self.text)
            again = losses_by_token(model, self.repeated)
            scores = {"prefix_matching": self.prefix_matching(model), "previous_token": self.previous_token(model)}
        model.train(training)
        return {
            "loss": round(float(losses[:, 1:].mean()), 4),
            "icl": round(float(losses[:, slice(*LATE)].mean() - losses[:, slice(*EARLY)].mean()), 4),
            "first_loss": round(float(again[:, 1 : REPEATED + 1].mean()), 4),
            "repeated_loss": round(float(again[:, REPEATED + 1 :].mean()), 4),
            **{name: [[round(float(x), 4) for x in row] for row in table] for name, table in scores.items()},
        }

    def prefix_matching(self, model: nn.Module) -> Tensor:
        """[L, H]: mean attention from a repeated token to what followed its earlier copies."""
        ids = self.repeated
        before = torch.nn.functional.pad(ids[:, :-1], (1, 0), value=-1)
        with hw.observe(model, hw.MassWhere(ids, before, name="after_copy")) as seen, torch.no_grad():
            model(input_ids=ids)
        return seen["after_copy"][..., REPEATED + 1 :].mean((1, 3))

    def previous_token(self, model: nn.Module) -> Tensor:
        """[L, H]: mean attention to the token before, from the second token on."""
        ids = self.text[:TEXTS]
        before = torch.arange(ids.shape[1])[:, None] - 1
        with hw.observe(model, hw.MassOn(before, name="before")) as seen, torch.no_grad():
            model(input_ids=ids)
        return seen["before"][..., 1:].mean((1, 3))


def losses_by_token(model: Any, ids: Tensor, batch: int = 32) -> Tensor:
    """[N, T] float32, column t the loss of token t in nats given those before it; column 0 is NaN: nothing tells it."""
    rows = []
    for part in ids.split(batch):
        with torch.no_grad():
            logits = model(input_ids=part).logits
        told = logits[:, :-1].float().flatten(0, 1)
        loss = nn.functional.cross_entropy(told, part[:, 1:].flatten(), reduction="none").view(len(part), -1)
        rows.append(nn.functional.pad(loss, (1, 0), value=float("nan")))
    return torch.cat(rows)


def composition_of_keys(model: Any) -> Tensor:
    """K-composition of every head of layer 1 with every head of layer 0, [H of layer 1, H of layer 0].

    The ratios as they are: what random matrices of these shapes give, `chance_of_composition`, is not subtracted.
    """
    return composition(model, "k", subtract=False, fold_norm=True)[0, :, 1].T


def chance_of_composition(model: Any) -> float:
    """The mean K-composition of random matrices of a head's shapes, the same for every pair of heads."""
    above = composition(model, "k", fold_norm=True)[0, :, 1].T
    return float((composition_of_keys(model) - above).mean())
