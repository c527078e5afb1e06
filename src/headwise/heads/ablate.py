"""Ablation: what a model does without the output of some of its heads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.block import block
from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.heads.batches import as_batches, mask_of_queries, run
from headwise.heads.editing import chosen, edited
from headwise.models.edit import Call, Edit, Edited
from headwise.models.families import CROSS
from headwise.models.sites import find_sites
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["ablate", "zeroed"]


@block("hw.ablate")
def ablate(
    model: nn.Module, heads: Mapping[Any, Sequence[int]], how: str = "zero", reference: Any = None
) -> Iterator[Edited]:
    """Replaces the outputs of chosen heads while the block is open, before the output projection joins the heads.

    With z [B, H, T, E] the heads' mixes of values, z[:, h] becomes

        zero        0
        mean        the mean of z[:, h] over all real tokens of ``reference``, the same for every token
        resample    z[:, h] of a run on ``reference``, at the same batch row and position

    The pattern is computed as ever; later layers see what comes of the change. To keep their patterns as they were,
    open the block inside ``hw.freeze``: Olsson et al.'s pattern-preserving ablation. Everything runs on the backend
    that the model would run on anyway. Under gradient checkpointing run backward inside the block, too: it repeats the
    layers.

    Args:
        model: a transformers model; one that is not in use is used for the duration.
        heads: ``{layer: [head, ...]}``; a layer is a name or an index of ``hw.sites(model)``.
        how: "zero", "mean" or "resample".
        reference: for "mean" a batch or a list of batches; for "resample" one batch, of as many rows as the model will
            be run on, or of one row for all. A batch is a mapping of the model's inputs, or its input_ids [B, T].

    Yields:
        ``.backends``: for each layer that ran, the backend that ran it.

    Raises:
        SpecError: a layer or head that does not exist; no reference where one is needed; at the end of the block, an
            edit that did not act.
        ShapeError: a run that the resampled outputs do not fit.
        UnsupportedError: the model's attention does not go through transformers' interface; "mean" or "resample" of a
            layer that runs more than once in a forward.

    Source: Michel et al. 2019 (arXiv 1905.10650); Olsson et al. 2022 (arXiv 2209.11895).

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> ids = torch.arange(6)[None]
        >>> with hw.ablate(model, {1: [0]}) as edits, torch.no_grad():
        ...     logits = model(ids).logits
        >>> list(edits.backends)
        ['transformer.h.1.attn']
    """
    which = chosen("ablate", model, heads)
    if how not in ("zero", "mean", "resample"):
        raise SpecError(sentence("ablate", f"how is {how!r}", 'it is "zero", "mean" or "resample"'))
    if (how == "zero") != (reference is None):
        rule = "zero needs no reference" if how == "zero" else f"{how!r} takes its outputs from runs on a reference"
        raise SpecError(sentence("ablate", f"how is {how!r} and reference is {type(reference).__name__}", rule))
    edits: list[Edit]
    if how == "zero":
        edits = [_Zero("ablate", site, numbers) for site, numbers in which.items()]
    elif how == "mean":
        edits = _means(model, which, as_batches("ablate", "reference", reference))
    else:
        edits = _resampled(model, which, as_batches("ablate", "reference", reference))
    with edited(model, edits) as told:
        yield told


@contextlib.contextmanager
def zeroed(model: nn.Module, heads: Mapping[Any, Sequence[int]]) -> Iterator[Edited]:
    """``ablate`` for a measurement: only what this context runs is ablated, other threads run the model as it is."""
    which = chosen("ablate", model, heads)
    with edited(model, [_Zero("ablate", site, numbers) for site, numbers in which.items()], everywhere=False) as told:
        yield told


class _Zero(Edit):
    def after(self, call: Call, out: Tensor) -> Tensor:
        return out.index_fill(1, self.index(out), 0.0)


class _Mean(Edit):
    def __init__(self, site: str, heads: Sequence[int], mean: Tensor) -> None:
        super().__init__("ablate", site, heads)
        self.mean = mean  # [heads, E]

    def after(self, call: Call, out: Tensor) -> Tensor:
        B, _, T, E = out.shape
        mean = self.mean.to(out.dtype).to(out.device)[None, :, None].expand(B, -1, T, E)
        return out.index_copy(1, self.index(out), mean)


class _Resampled(Edit):
    def __init__(self, site: str, heads: Sequence[int], z: Tensor, first: int | Tensor) -> None:
        super().__init__("ablate", site, heads)
        self.z, self.first = z, first  # [B, heads, T, E], and the position of its first query

    def after(self, call: Call, out: Tensor) -> Tensor:
        B, _, T, _ = out.shape
        z = self.z.to(out.dtype).to(out.device)
        if len(z) not in (1, B):
            raise self._misfit(out, "its batch has one row, or as many as the run")
        rows = self._rows(call, T)
        if int(rows.min()) < 0 or int(rows.max()) >= z.shape[2]:
            raise self._misfit(out, "the run's positions must lie within the reference's")
        at = rows[:, None, :, None].expand(B, z.shape[1], T, z.shape[3])
        return out.index_copy(1, self.index(out), z.expand(B, -1, -1, -1).gather(2, at))

    def _rows(self, call: Call, T: int) -> Tensor:
        """For each query of the run its row in the reference, [B or 1, T]."""
        if self.crosses and self.z.shape[2] != T:
            raise self._misfit(call.q, "queries of cross attention are placed by their row, so T must agree")
        first = torch.as_tensor(0 if self.crosses else self.first, device=call.q.device, dtype=torch.int64).reshape(
            -1, 1
        )
        return self.first_query(call)[:, None] - first + torch.arange(T, device=call.q.device, dtype=torch.int64)

    def _misfit(self, run: Tensor, rule: str) -> ShapeError:
        return ShapeError(
            sentence(
                "ablate",
                f"the outputs resampled for {self.site} do not fit the run",
                rule,
                f"{axes('reference', self.z, 'B heads T E')}, {axes('run', run, 'B H T E')}",
                "Give a reference of the same shape as what the model is run on.",
            )
        )


class _Recording(Watcher):
    """Hands each run of chosen heads to ``record``; a layer that runs twice in a forward has no one output."""

    def __init__(self, model: nn.Module, which: Mapping[str, Sequence[int]]) -> None:
        modules = find_sites(model)
        super().__init__(model, {modules[site]: site for site in which})
        self.which = which
        self.batch: Any = None  # the one that is run

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        if site not in self.which:
            base = site.rpartition("#")[0]
            raise UnsupportedError(
                sentence(
                    "ablate",
                    f"{base} runs more than once in a forward",
                    "mean and resample need one output a layer",
                    todo='Use how="zero".',
                )
            )
        H = attended.out.shape[1]
        heads = [head for head in self.which[site] if head < H]  # one that is not there is refused in the block
        self.record(site, attended, attended.out[:, heads].detach())

    def record(self, site: str, attended: Attended, z: Tensor) -> None:
        raise NotImplementedError


class _Sums(_Recording):
    def __init__(self, model: nn.Module, which: Mapping[str, Sequence[int]]) -> None:
        super().__init__(model, which)
        self.total: dict[str, Tensor] = {}
        self.count: dict[str, int] = {}

    def record(self, site: str, attended: Attended, z: Tensor) -> None:
        # A query that padding hides sees nothing, but in cross attention, where the mask is of the other side's keys.
        real = (attended.lse > -torch.inf).any(1)
        told = mask_of_queries(self.batch)
        if CROSS.search(site) and told is not None:
            real = real & told.bool().to(real.device)
        real = real[:, None, :, None]
        total = torch.where(real, z, 0).double().sum((0, 2))
        self.total[site] = self.total[site] + total if site in self.total else total
        self.count[site] = self.count.get(site, 0) + int(real.sum())


class _Outputs(_Recording):
    def __init__(self, model: nn.Module, which: Mapping[str, Sequence[int]]) -> None:
        super().__init__(model, which)
        self.found: dict[str, tuple[Tensor, int | Tensor]] = {}

    def record(self, site: str, attended: Attended, z: Tensor) -> None:
        self.found[site] = z.clone(), attended.pattern.options["q_start"]


def _watch(model: nn.Module, watcher: _Recording, batches: Sequence[Any]) -> None:
    with held(model), watched(watcher), torch.no_grad():
        for watcher.batch in batches:
            run(model, watcher.batch)


def _means(model: nn.Module, which: Mapping[str, Sequence[int]], batches: Sequence[Any]) -> list[Edit]:
    sums = _Sums(model, which)
    _watch(model, sums, batches)
    for site in which:
        if not sums.count.get(site):
            raise SpecError(
                sentence("ablate", f"{site} saw no real token of the reference", "a mean is over at least one")
            )
    return [_Mean(site, numbers, sums.total[site] / sums.count[site]) for site, numbers in which.items()]


def _resampled(model: nn.Module, which: Mapping[str, Sequence[int]], batches: Sequence[Any]) -> list[Edit]:
    if len(batches) != 1:
        raise SpecError(sentence("ablate", f"reference is {len(batches)} batches", '"resample" takes one'))
    outputs = _Outputs(model, which)
    _watch(model, outputs, batches)
    for site in which:
        if site not in outputs.found:
            raise SpecError(
                sentence("ablate", f"{site} did not run on the reference", "its outputs are resampled from there")
            )
    return [_Resampled(site, numbers, *outputs.found[site]) for site, numbers in which.items()]
