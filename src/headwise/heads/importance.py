"""How much a model's loss depends on each head: gate gradients, Taylor, leave one out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.heads.ablate import zeroed
from headwise.heads.batches import as_batches, ids_of, in_mode, is_causal_lm, next_tokens, rows_of, run, trainable
from headwise.models.edit import Call, Edit, count_of, in_force
from headwise.models.sites import find_sites, refuse_if_outside
from headwise.models.using import held

__all__ = ["Loss", "gradients", "importance", "loss_of", "mean_loss"]

#: A loss of the caller's own: (the model's output, the batch) -> a tensor of one element.
Loss = Callable[[Any, Any], Tensor]

METHODS = ("gradient", "taylor", "leave_one_out")


def importance(
    model: nn.Module, batches: Any, loss: Loss | None = None, *, method: str = "gradient", normalise: bool = False
) -> Tensor:
    """How much the loss depends on each head.

    With a gate xi = 1 on the output of head h, before the output projection, and L(x) the loss of one example:

        gradient        I_h = mean over examples of |dL(x) / dxi|       Michel et al. 2019, equation 2
        taylor          I_h = mean over examples of (dL(x) / dxi)^2     Molchanov et al. 2019, equation 8
        leave_one_out   I_h = L without the head - L                    may be negative: the loss is better without it

    The gradient of each example is its own, whatever shares the batch with it: the loss of a batch is taken to be a
    mean over its rows, so an example counts by its share in that mean (its tokens, where the loss is a mean over
    tokens). The first two take one forward and backward a batch, the last one forward a head and batch. The model runs
    as in eval mode; neither its weights nor their ``.grad`` are touched. Blocks of ``hw.ablate`` and the like that are
    open on the model act here too; leave_one_out opens such blocks, so it has the model to itself.

    Args:
        model: a transformers model; one that is not in use is used for the duration.
        batches: a batch, or a list of them. A batch is a mapping of the model's inputs, or its input_ids [B, T].
        loss: (output, batch) -> a tensor of one element; None = the model's own, for which a batch has ``labels``. To
            a language model that predicts what it is given a batch without labels gives its input_ids as such, padding
            left out.
        method: "gradient", "taylor" or "leave_one_out".
        normalise: divide each layer's by its Euclidean norm over heads, as Michel et al. do before they compare layers.

    Returns:
        float32 [L, H], layers in the order of ``hw.sites(model)``, in units of the loss (of its square for "taylor");
        NaN where a layer has no such head or did not run.

    Raises:
        SpecError: an unknown method; batches that are none; a loss that is no tensor of one element or has no gradient.
        UnsupportedError: the model's attention does not go through transformers' interface.

    Source: Michel, Levy, Neubig 2019 (arXiv 1905.10650); Molchanov et al. 2019 (arXiv 1906.10771).

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> hw.importance(model, torch.randint(0, 16, (4, 8))).shape
        torch.Size([2, 2])
    """
    refuse_if_outside("importance", model)
    if method not in METHODS:
        raise SpecError(sentence("importance", f"method is {method!r}", f"it is one of {', '.join(METHODS)}"))
    several = as_batches("importance", "batches", batches)
    with in_mode(model, training=False):
        if method == "leave_one_out":
            found = _without_each(model, several, loss)
        else:
            found = _gate_gradients(model, several, loss, 1 if method == "gradient" else 2)
    if normalise:
        size = found.nan_to_num().norm(dim=1, keepdim=True)
        found = torch.where(size > 0, found / size, found)  # a layer whose heads are worth nothing stays as it is
    return found.float()


def loss_of(who: str, model: nn.Module, batch: Any, loss: Loss | None) -> Tensor:
    """The loss of a batch, with its graph where gradients are on.

    Args:
        who: the function that asks, for the message.
        model: the model.
        batch: a mapping of its inputs, or its input_ids.
        loss: of the caller's own, or None.

    Raises:
        SpecError: the model has no loss of its own, or the loss is no tensor of one element.
    """
    value: Any
    if loss is not None and not callable(loss):
        rule = "it is a function of the model's output and the batch"
        raise SpecError(sentence(who, f"loss is {loss!r}", rule, todo="Give loss=lambda output, batch: ...."))
    if loss is not None:
        value = loss(run(model, batch), batch)
    else:
        inputs = {"input_ids": batch} if isinstance(batch, Tensor) else dict(batch)
        if "labels" not in inputs and is_causal_lm(model):
            inputs["labels"] = next_tokens(ids_of(who, inputs), inputs.get("attention_mask"))
            if not bool((inputs["labels"] != -100).any()):
                size = list(inputs["labels"].shape)
                raise SpecError(sentence(who, f"a batch {size} has no token that follows another", "T is 2 or more"))
        output = model(**inputs)
        value = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if value is None:
            raise SpecError(
                sentence(
                    who,
                    f"{type(model).__name__} gives no loss on this batch",
                    "heads are weighed by a loss",
                    todo="Put labels into the batches, or give loss=lambda output, batch: ....",
                )
            )
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.is_floating_point():
        shape = f"{list(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        rule = "it is a tensor of one real number"
        raise SpecError(sentence(who, f"the loss is {shape}", rule, todo="Take its mean."))
    return value.reshape(())


def mean_loss(who: str, model: nn.Module, batches: Sequence[Any], loss: Loss | None) -> float:
    """The mean loss of batches, each weighing as much as it has rows."""
    total, rows = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            total += float(loss_of(who, model, batch, loss)) * rows_of(model, batch)
            rows += rows_of(model, batch)
    return total / rows


def gradients(who: str, loss: Tensor, of: Sequence[Tensor]) -> list[Tensor | None]:
    """The derivatives of a loss; SpecError where there are none."""
    grads: list[Tensor | None] = []
    if loss.requires_grad and of:
        grads += torch.autograd.grad(loss, of, allow_unused=True)
    if all(grad is None for grad in grads):
        raise SpecError(
            sentence(
                who,
                "the loss has no gradient with respect to any head",
                "it follows from the model's output by steps that torch can differentiate",
                todo="Leave out .detach(), .item(), argmax and torch.no_grad().",
            )
        )
    return grads


class _Gated(Edit):
    """A gate of 1 on every head of one layer, one for each example."""

    def __init__(self, site: str) -> None:
        super().__init__("importance", site, ())
        self.gates: list[Tensor] = []  # one a run of the layer, [B, H]

    def after(self, call: Call, out: Tensor) -> Tensor:
        gate = torch.ones(out.shape[:2], dtype=torch.float32, device=out.device, requires_grad=True)
        self.gates.append(gate)
        return out * gate.to(out.dtype)[..., None, None]


class _Counted(Edit):
    """Changes nothing, and is seen to have run."""

    def __init__(self, site: str) -> None:
        super().__init__("importance", site, ())


def _gate_gradients(model: nn.Module, batches: Sequence[Any], loss: Loss | None, power: int) -> Tensor:
    modules = find_sites(model)
    total: dict[str, Tensor] = {}
    rows = 0
    for batch in batches:
        edits = [_Gated(site) for site in modules]
        pairs = list(zip(modules.values(), edits, strict=True))
        with held(model), in_force(pairs, everywhere=False), torch.inference_mode(False), torch.enable_grad():
            value = loss_of("importance", model, trainable(batch), loss)
            ran = [edit for edit in edits if edit.gates]
            grads = gradients("importance", value, [gate for edit in ran for gate in edit.gates])
        B = rows_of(model, batch)
        for edit in ran:
            of_site = [grad for grad in (grads.pop(0) for _ in edit.gates) if grad is not None]
            # A layer that runs n times in a forward has one head h: its gates are one gate.
            each = sum(of_site, torch.zeros_like(edit.gates[0])).double() * len(edit.gates[0])
            total[edit.site] = total.get(edit.site, 0) + (each.abs() ** power).mean(0) * B
        rows += B
    return _stacked(list(modules), {site: value / rows for site, value in total.items()})


def _without_each(model: nn.Module, batches: Sequence[Any], loss: Loss | None) -> Tensor:
    modules = find_sites(model)
    counted = [(module, _Counted(site)) for site, module in modules.items()]
    with held(model), in_force(counted, everywhere=False) as ran:
        whole = mean_loss("importance", model, batches, loss)
    found = {}
    for site in ran.backends:
        without = []
        for head in range(count_of(modules[site]) or 0):
            with zeroed(model, {site: [head]}):
                without.append(mean_loss("importance", model, batches, loss) - whole)
        found[site] = torch.tensor(without, dtype=torch.float64, device="cpu")
    return _stacked(list(modules), found)


def _stacked(names: Sequence[str], found: Mapping[str, Tensor]) -> Tensor:
    """Rows of all layers, NaN where there is no head."""
    most = max((len(row) for row in found.values()), default=0)
    rows = torch.full((len(names), most), torch.nan, dtype=torch.float64, device="cpu")
    for at, name in enumerate(names):
        if name in found:
            rows[at, : len(found[name])] = found[name].cpu()
    return rows
