"""The probabilities that a model in use returns where it is asked for them: whole, exact, and without a gradient."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import UnsupportedError, sentence
from headwise.models.edit import Call
from headwise.pattern import Pattern
from headwise.tracing import readable

__all__ = ["output_and_weights"]


def output_and_weights(module: nn.Module, call: Call, out: Tensor, pattern: Pattern) -> tuple[Tensor, Tensor]:
    """A layer's output [B,H,T,E], its bits as they are, and its probabilities [B,H,T,S] in the dtype of its queries.

    Where the model's own weights would carry a gradient, these do not, and whoever asks for one is told so.

    Args:
        module: the attention module, for errors.
        call: what it asked.
        out: its output.
        pattern: its pattern.

    Raises:
        UnsupportedError: the weights are too large to be given whole; from ``backward``, that their gradient is wanted.
    """

    def dense() -> Tensor:
        try:
            return pattern.to_dense().to(call.q.dtype)
        except UnsupportedError as refusal:
            raise _too_large(pattern) from refusal

    rules = (rule.parameter() for rule in call.options.get("scores", ()))
    carriers = (call.q, call.k, call.options.get("sinks"), *rules)
    if not torch.is_grad_enabled() or not any(x is not None and x.requires_grad for x in carriers):
        return out, dense()
    who = type(module).__name__
    out, weights = _WithoutGradient.apply(who, dense, out, *(x for x in carriers if x is not None))
    weights.grad_fn.weights = weakref.ref(weights)
    return out, weights


class _WithoutGradient(torch.autograd.Function):
    """The output, which a loss may be made of, and weights in the same graph, from which no gradient comes."""

    @staticmethod
    def forward(who: str, dense: Callable[[], Tensor], out: Tensor, *carriers: Tensor) -> tuple[Tensor, Tensor]:
        return out.clone(), dense()  # a view made here could not be changed in place

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.who, ctx.inputs = inputs[0], len(inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_weights: Tensor | None) -> tuple[Any, ...]:
        weights = ctx.weights()
        # Whoever will read weights.grad, which would stay None.
        waited_for = weights is not None and (weights.retains_grad or bool(weights._backward_hooks))
        # Checkpoints and hooks of modules send zeros to what no loss uses; zeros are right.
        comes = grad_weights is not None and not (readable(grad_weights) and not grad_weights.any())
        if waited_for or comes:
            raise UnsupportedError(
                sentence(
                    ctx.who,
                    "a gradient of its attention weights is wanted",
                    "the weights that a model in use returns are made beside its output and carry no gradient",
                    todo="Run that step without headwise: hw.restore(model), then "
                    'model.set_attn_implementation("eager"). Of headwise.attend(...), out and lse carry gradients.',
                )
            )
        return (None, None, grad_out, *(None,) * (ctx.inputs - 3))


def _too_large(pattern: Pattern) -> UnsupportedError:
    b, h, t, s = pattern.shape
    return UnsupportedError(
        sentence(
            "output_attentions",
            f"the weights of one layer would be [B={b},H={h},T={t},S={s}], {b * h * t * s * 4 / 2**30:.1f} GiB",
            "whole patterns are only given up to the size that Pattern.to_dense allows",
            todo="Ask what you need of them with hw.observe(model, hw.Entropy(), hw.TopKeys(8), ...), in O(T) memory.",
        )
    )
