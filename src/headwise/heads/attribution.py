"""What each head adds: its part of its module's output, and its part of a logit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.heads.reading import wide
from headwise.heads.recording import mixes, record
from headwise.heads.targets import logits_asked
from headwise.models.projections import Projections, projections
from headwise.models.sites import in_order, resolve_sites, site_and_run, sites, whole

__all__ = ["Attribution", "Contributions", "attribution", "contributions"]


class Contributions:
    """What the heads of one forward added to their modules' outputs, worked out for the heads asked for.

    Attributes:
        output: what the model returned.
        sites: the sites that ran, by name.
    """

    def __init__(self, output: Any, mixed: dict[str, Tensor], layers: dict[str, Projections]) -> None:
        self.output = output
        self._mixed, self._layers = mixed, layers

    @property
    def sites(self) -> list[str]:
        """The sites that ran; a module that ran n times is ``site``, ``site#1``, ..."""
        return list(self._mixed)

    def of(self, layer: str | int, heads: Iterable[int] | None = None) -> Tensor:
        """What heads added, [B, heads, T, M]: their mixes of values times their parts of W_O.

        Args:
            layer: a name of ``sites``, or an index into ``hw.sites(model)``.
            heads: which; None = all, which takes H times the memory of the module's output.

        Raises:
            SpecError: no such layer or head, or it did not run.
        """
        site, p = self._found(layer)
        H = p.heads
        if heads is not None and not isinstance(heads, Iterable):
            raise SpecError(sentence("contributions", f"heads is {heads!r}", "it is a list of heads, or None for all"))
        wanted = range(H) if heads is None else list(heads)
        wrong = [head for head in wanted if whole(head) is None or not 0 <= head < H]
        if wrong:
            rule = f"{site} has heads 0 to {H - 1}" if H else f"{site} has no heads"
            raise SpecError(sentence("contributions", f"head is {wrong[0]!r}", rule))
        z = self._mixed[site]
        added = [z[:, head] @ p.o.weight(head).detach().T for head in wanted]
        return torch.stack(added, 1) if added else z.new_zeros(z.shape[0], 0, z.shape[2], p.o.matrix.shape[0])

    def bias(self, layer: str | int) -> Tensor:
        """What the module adds beside its heads: the output projection's bias [M], zeros where it has none."""
        _, p = self._found(layer)
        bias = p.o_bias
        return p.o.matrix.new_zeros(p.o.matrix.shape[0]).detach() if bias is None else bias.detach()

    def _found(self, layer: str | int) -> tuple[str, Projections]:
        site = layer if isinstance(layer, str) and layer in self._mixed else None
        if site is None:
            (site,) = resolve_sites("contributions", list(self._layers), [layer])
        if site not in self._mixed:
            raise SpecError(sentence("contributions", f"site {site!r} did not run", "these are of one forward"))
        return site, self._layers[site_and_run(site, self._layers)[0]]


def contributions(model: nn.Module, **batch: Any) -> Contributions:
    """Runs a model once and keeps what is needed to tell what each of its heads added, O(T) memory.

        output of an attention module = sum over heads of z_h W_O,h^T + bias        z_h = sum_j p_ij v_j

    Args:
        model: a transformers model of a known family, in use or not.
        batch: its inputs, ``**tokenizer(text, return_tensors="pt")``.

    Returns:
        The contributions: ``.of(layer, heads)`` is [B, heads, T, M] and ``.bias(layer)`` [M], in the model's dtype.

    Raises:
        UnsupportedError: an unknown family.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.heads.attribution import contributions
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> added = contributions(model, input_ids=torch.arange(6)[None])
        >>> added.of(1).shape, added.of(1, [0]).shape
        (torch.Size([1, 2, 6, 8]), torch.Size([1, 1, 6, 8]))
    """
    names = sites(model)
    layers = {site: projections(model, site, "contributions") for site in names}
    output, mixed = mixes(model, list(layers.values()), batch)
    return Contributions(output, in_order(mixed, names), layers)


@dataclass(frozen=True, eq=False)
class Attribution:
    """Terms that sum to a logit, or to the difference of two, at each place asked about; NaN elsewhere.

    heads + embedding + feed_forward + biases = logit, the last norm's size being that of the run.

    Attributes:
        heads: [L, H, B, T], by site and head; NaN where there is no such head or it reaches no logit directly.
        embedding: [B, T], of what the first layer is given, positions included.
        feed_forward: [layers, B, T], by layer of the list that reaches the logits.
        biases: [B, T], of output projections, the last norm and the unembedding.
        logit: [B, T], as the model gave it, before any soft cap.
    """

    heads: Tensor
    embedding: Tensor
    feed_forward: Tensor
    biases: Tensor
    logit: Tensor

    @property
    def total(self) -> Tensor:
        """The sum of all terms, [B, T]."""
        heads = self.heads.nan_to_num(0.0).sum((0, 1))
        return heads + self.embedding + self.feed_forward.sum(0) + self.biases

    def mean(self) -> Tensor:
        """The heads' terms averaged over the places asked about, [L, H]."""
        return self.heads.nanmean((2, 3))


def attribution(
    model: nn.Module, targets: Tensor | None = None, wrong: Tensor | None = None, **batch: Any
) -> Attribution:
    """Direct logit attribution: how much of a token's logit each head adds itself, not through later layers.

    The last norm divides by the size that the run had, and so is linear: the logit is a sum of one term a head, one a
    feed-forward, the embedding's and the biases'. It says nothing of what a head does through others.

    Args:
        model: a transformers model of a known family that norms first and has an unembedding, in use or not.
        targets: token ids int64, [B, T], -1 where nothing is asked; or [B], asked at each row's last real token. None =
            the next token of the text at each place that has one.
        wrong: ids to subtract the logit of, shaped as targets.
        batch: the model's inputs; ``attention_mask`` says which tokens are real.

    Returns:
        The attribution; ``.heads`` is [L, H, B, T], ``.mean()`` [L, H].

    Raises:
        ShapeError: targets of another shape, or ids that the vocabulary does not have.
        UnsupportedError: an unknown family, one that norms after it adds (BERT, BART), or no unembedding.

    Source:
        Elhage et al. 2021; nostalgebraist 2020, "interpreting GPT: the logit lens".

    Example:
        >>> import torch
        >>> from headwise.heads.attribution import attribution
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> found = attribution(model, torch.tensor([6]), torch.tensor([7]), input_ids=torch.arange(6)[None])
        >>> found.mean().shape, torch.allclose(found.total[0, -1], found.logit[0, -1], atol=1e-5)
        (torch.Size([2, 2]), True)
    """
    run = record(model, batch, "attribution")
    asked = logits_asked(model, run, batch, targets, wrong, "attribution")
    heads = run.size.new_full((len(run.layers), max(p.heads for p in run.layers), *asked.logit.shape), torch.nan)
    biases = asked.along.bias.clone()
    for at, p in run.sites.items():
        along = run.into_site(model, p, asked.along.weight)
        heads[at, : p.heads] = run.by_head(p, along, wide(run.mixed[p.site]))
        if p.o_bias is not None:
            biases += along @ wide(p.o_bias)
    feed_forward = [run.term(added, asked.along.weight) for added in run.feed_forward.values()]
    terms = (heads, run.term(run.embedding, asked.along.weight), torch.stack(feed_forward), biases, asked.logit)
    return Attribution(*(term.masked_fill(asked.nothing, torch.nan) for term in terms))
