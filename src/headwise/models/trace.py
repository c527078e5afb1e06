"""One run of a model, kept so that every pattern of it can be asked for afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.block import block
from headwise.errors import SpecError, sentence
from headwise.models.generating import Steps
from headwise.models.inputs import check_inputs
from headwise.models.sites import (
    counted,
    find_sites,
    in_order,
    refuse_if_outside,
    resolve_sites,
    say_left_out,
    site_and_run,
    some,
)
from headwise.models.token_text import names_of
from headwise.models.trace_file import Kept, Tokens, are_tokens, read, write
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended
from headwise.pattern import Pattern
from headwise.spec import Mask
from headwise.spec.checks import is_integer

__all__ = ["Trace", "read_trace", "trace", "tracing"]


class Trace:
    """What ``hw.trace`` keeps of one forward: q, k, v and the mask of each site, O(T) memory.

    Attributes:
        output: what the model returned; None in a block of ``tracing`` and for a trace that was read from a file.
        inputs: copies of the inputs that say something of each token, by name: the tensors of integers with one or two
            axes, ``input_ids``, ``attention_mask``, ``decoder_input_ids``, ...
        tokens: the tokens as strings, a list for each batch row, by name of the input that they are of; None until
            somebody says them.
        notes: JSON that goes with the trace into its file, by name: ``"heads"`` are the scores of ``headwise view``.
        sites: the attention modules that ran, in the order of ``hw.sites(model)``; a module that ran n times is
            ``site``, ``site#1``, ...
    """

    def __init__(
        self,
        output: Any,
        patterns: Mapping[str, Pattern],
        names: Sequence[str],
        inputs: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.output = output
        self.inputs = dict(inputs or {})
        self.tokens: Tokens | None = None
        self.notes: dict[str, Any] = {}
        self._names = list(names)
        self._patterns = in_order(patterns, self._names)

    @property
    def sites(self) -> list[str]:
        """The runs that were kept, by site in the order of ``hw.sites(model)``, then by run."""
        return list(self._patterns)

    def pattern(self, layer: str | int) -> Pattern:
        """The attention pattern of one site.

        Args:
            layer: an index into ``hw.sites(model)``, whether or not every site ran, and for a site that ran several
                times its first run; or a name of ``trace.sites``, ``"site#1"`` for the second run.

        Returns:
            The pattern, never stored: index it, reduce it.

        Raises:
            SpecError: the model has no such site, or it did not run in this forward.

        Example:
            >>> import torch, headwise as hw
            >>> from transformers import GPT2Config, GPT2LMHeadModel
            >>> model = GPT2LMHeadModel(
            ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
            ... ).eval()
            >>> trace = hw.trace(model, input_ids=torch.arange(6)[None])
            >>> trace.sites
            ['transformer.h.0.attn', 'transformer.h.1.attn']
            >>> trace.pattern(1)[0, 0, 0:1, 0:3]  # layer 1, head 0: its first token sees itself alone
            tensor([[1., 0., 0.]])
            >>> trace.pattern("transformer.h.1.attn").top_keys(2).indices.shape
            torch.Size([1, 2, 6, 2])
        """
        if isinstance(layer, str) and layer in self._patterns:
            return self._patterns[layer]
        (site,) = resolve_sites("trace", self._names, [layer])
        if site not in self._patterns:
            raise SpecError(
                sentence(
                    "trace",
                    f"site {site!r} did not run in this forward",
                    "a trace keeps the patterns of one forward",
                    todo="trace.sites lists what ran.",
                )
            )
        return self._patterns[site]

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        tokenizer: Any = None,
        tokens: Mapping[str, Sequence[Sequence[str]]] | None = None,
        values: bool = True,
    ) -> Path:
        """Writes the trace to one safetensors file, which ``headwise.models.read_trace`` reads.

        The file holds q, k, v, the row facts and the options of each pattern, the inputs, the tokens and the notes,
        not the output; it appears whole or not at all.

        Args:
            path: where it shall be, a ``.safetensors`` file; an older one there stays until the new one is whole.
            tokenizer: names the tokens, so that who opens the file sees words.
            tokens: or the tokens as strings, a list for each batch row, by name of the input that they are of; None =
                those of ``trace.tokens``.
            values: False leaves v out, which only Contribution reads.

        Returns:
            The path.

        Raises:
            SpecError: the path has another ending, the place cannot be written, or a mask or score rule is a function
                of Python (``Rule``, ``ScoreRule``).

        Example:
            >>> import tempfile, torch, headwise as hw
            >>> from headwise.models import read_trace
            >>> from transformers import GPT2Config, GPT2LMHeadModel
            >>> model = GPT2LMHeadModel(
            ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
            ... ).eval()
            >>> trace = hw.trace(model, input_ids=torch.arange(3)[None])
            >>> path = tempfile.mkdtemp() + "/three.safetensors"
            >>> trace.save(path, tokens={"input_ids": [["one", "two", "three"]]}).name
            'three.safetensors'
            >>> again = read_trace(path)
            >>> torch.equal(again.pattern(1).to_dense(), trace.pattern(1).to_dense()), again.tokens["input_ids"]
            (True, [['one', 'two', 'three']])
        """
        if not isinstance(path, (str, os.PathLike)) or Path(path).suffix != ".safetensors":
            raise SpecError(sentence("save", f"the place is {str(path)[:200]!r}", "a trace is a .safetensors file"))
        if tokenizer is not None and tokens is not None:
            raise SpecError(sentence("save", "tokenizer and tokens were both given", "tokens have one name each"))
        said = self.tokens if tokens is None else tokens
        if tokenizer is not None:
            said = self.named(tokenizer)
        if said is not None and not are_tokens(said):
            rule = "they are lists of strings, one a batch row, by name of the input"
            raise SpecError(
                sentence("save", f"tokens is a {type(said).__name__} of another form", rule, todo=_TOKENS_TODO)
            )
        try:
            json.dumps(dict(self.notes))
        except (TypeError, ValueError, RecursionError) as cause:
            raise SpecError(sentence("save", "notes are not JSON", "they are a dict of what JSON can say")) from cause
        plain = None if said is None else {name: [list(row) for row in rows] for name, rows in said.items()}
        write(path, Kept(self._patterns, self._names, self.inputs, plain, self.notes), values)
        return Path(path)

    def named(self, tokenizer: Any) -> Tokens:
        """The tokens of the inputs as strings.

        Args:
            tokenizer: of transformers.

        Returns:
            A list for each batch row, by name of the input: input_ids, decoder_input_ids.

        Raises:
            SpecError: what was given is no tokenizer, or no token ids are known, as where a model read embeddings.

        Example:
            >>> import torch, headwise as hw
            >>> model, tokenizer = hw.load("two-layer")
            >>> hw.trace(model, **tokenizer("a list", return_tensors="pt")).named(tokenizer)["input_ids"][0][-1]
            ' list'
        """
        if not all(hasattr(tokenizer, name) for name in ("convert_ids_to_tokens", "decode", "all_special_ids")):
            rule = "it is one of transformers, which knows the names of its tokens"
            raise SpecError(sentence("trace", f"tokenizer is a {type(tokenizer).__name__}", rule))
        read = [name for name in ("input_ids", "decoder_input_ids") if name in self.inputs]
        if not read:
            raise SpecError(sentence("trace", "no token ids are known", "a tokenizer names those that a model read"))
        rows = {name: (ids if (ids := self.inputs[name]).dim() == 2 else ids[None]).tolist() for name in read}
        return {name: [names_of(tokenizer, row)[0] for row in batch] for name, batch in rows.items()}

    def __repr__(self) -> str:
        ran = list(dict.fromkeys(site_and_run(name, self._names)[0] for name in self._patterns))
        runs = "" if len(ran) == len(self._patterns) else f"; {counted(len(self._patterns), 'run')} of them"
        return f"Trace({counted(len(ran), 'site')}: {some(ran)}{runs})"


_TOKENS_TODO = 'Write {"input_ids": [tokenizer.convert_ids_to_tokens(row) for row in input_ids]}.'


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a trace that ``Trace.save`` wrote; its tensors stay in the file, mapped into memory.

    A file of any origin may be read: nothing in it is run, and one that was cut short, damaged or made up is refused.
    While the trace is in use the file has to stay as it is; saving another trace there is no harm, writing into it is.

    Args:
        path: where it is.

    Returns:
        The trace; its ``output`` is None. It answers as the trace that was saved.

    Raises:
        SpecError: there is no such file, or it is no trace, of another version, cut short or damaged.
        UnavailableError: safetensors is not installed.

    Example:
        >>> from headwise.models import read_trace
        >>> read_trace("nowhere.safetensors")
        Traceback (most recent call last):
        headwise.errors.SpecError: read_trace: nowhere.safetensors cannot be read; No such file or directory. ...
    """
    kept = read(path)
    found = Trace(None, kept.patterns, kept.names, kept.inputs)
    found.tokens, found.notes = kept.tokens, dict(kept.notes)
    return found


class _Tracing(Watcher):
    """Fills a trace while its model runs."""

    who = "hw.trace"

    def __init__(self, model: nn.Module, names: dict[nn.Module, str], into: Trace) -> None:
        super().__init__(model, names)
        self.into = into
        self.steps: dict[str, Steps] = {}

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        patterns = self.into._patterns
        if site not in patterns:
            self.into._patterns = in_order({**patterns, site: attended.pattern}, self.into._names)
            return
        if site not in self.steps:
            self.steps[site] = Steps(site, patterns[site])
        self.steps[site].add(attended.pattern)

    def joined(self) -> None:
        """Puts the steps of a generation together."""
        if self.steps and not any(steps.grows for steps in self.steps.values()):
            rule = "a trace keeps the patterns of one forward, or of the steps of one generation"
            raise SpecError(
                sentence("tracing", "the model ran several times", rule, todo="Open a block for each forward.")
            )
        self.into._patterns.update({site: steps.pattern() for site, steps in self.steps.items()})

    def given(self, _module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Keeps the inputs of a forward; what a later step says of its own tokens stands behind what is there."""
        if not self.here:
            return
        found, held = _integers(args, named), self.into.inputs
        ids = found.get("decoder_input_ids", found.get("input_ids"))
        for name, value in found.items():
            behind = ids is not None and name in held and value.shape[-1] == ids.shape[-1]
            held[name] = torch.cat([held[name], value], -1) if behind else value


def _integers(args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies of the inputs that say something of each token: tensors of integers with one or two axes."""
    found = {"input_ids": args[0], **named} if args else dict(named)
    return {
        name: value.detach().clone()
        for name, value in found.items()
        if isinstance(value, Tensor) and value.dim() in (1, 2) and (is_integer(value) or value.dtype == torch.bool)
    }


@block("models.tracing")
def tracing(model: nn.Module) -> Iterator[Trace]:
    """Keeps what the patterns of one forward are made of, which runs inside the block as it would outside.

    Other watchers of the same model (``hw.observe``) may be open at the same time. The trace is filled site by site
    while the model runs; the steps of a ``generate`` are put together at the end of the block, as ``hw.trace`` says.

    Args:
        model: a transformers model; one that is not in use is used for the block and restored.

    Yields:
        The trace; its ``output`` is None, since whoever runs the model has it.

    Raises:
        UnsupportedError: the model's attention does not go through transformers' attention interface, or the steps of
            a generation do not make one pattern.
        SpecError: the model runs several times in the block, and these are not the steps of a generation; or in other
            threads and tasks alone.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.models import tracing
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> with torch.no_grad(), hw.observe(model, hw.Entropy()) as seen, tracing(model) as trace:
        ...     logits = model(input_ids=torch.arange(6)[None]).logits
        >>> trace.pattern(1).shape, seen["entropy"].shape
        (torch.Size([1, 2, 6, 6]), torch.Size([2, 1, 2, 6]))
        >>> trace.inputs["input_ids"]
        tensor([[0, 1, 2, 3, 4, 5]])
    """
    refuse_if_outside("trace", model)
    say_left_out("trace", model)
    found = find_sites(model)
    into = Trace(None, {}, list(found))
    watcher = _Tracing(model, {module: name for name, module in found.items()}, into)
    with held(model), watched(watcher):
        hook = model.register_forward_pre_hook(watcher.given, with_kwargs=True)
        try:
            yield into
        finally:
            hook.remove()
    if watcher.elsewhere and not into.sites:
        what, rule = "no forward of the model was seen", "it ran in other threads or tasks alone, which are left out"
        todo = "Run the model in the thread or task that opens the block, or in a copy of its context."
        raise SpecError(sentence("tracing", what, rule, todo=todo))
    watcher.joined()


def trace(model: nn.Module | Callable[..., Any], *args: Any, **batch: Any) -> Trace:
    """Runs a model once, without gradients, and keeps what its patterns are made of.

    ``hw.trace(model.generate, ...)`` keeps a whole generation, prompt and steps, as one trace: the queries of all steps
    in a row, over all keys that were ever made. It is the pattern of one forward over the whole text, less the last
    token, which nobody attended from; ``trace.inputs`` are those of that text. Nothing is computed again.

    Args:
        model: a transformers model, or a method of one that runs it (``model.generate``); one that is not in use is
            used for the run and restored.
        args: positional inputs of the model.
        batch: keyword inputs, ``**tokenizer(text, return_tensors="pt")``.

    Returns:
        The trace: ``.sites``, ``.pattern(layer)``, ``.inputs``, ``.output``.

    Raises:
        UnsupportedError: the model's attention does not go through transformers' attention interface; or a step of a
            generation does not attend to the keys of the steps before it, unchanged (beams that change places, static
            and quantised caches, drafts that are taken back).
        SpecError: the forward ran no attention; a text was given in place of tokens.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> trace = hw.trace(model, input_ids=torch.arange(6)[None])
        >>> trace.pattern(1).shape
        torch.Size([1, 2, 6, 6])
        >>> written = hw.trace(
        ...     model.generate, torch.arange(3)[None], max_new_tokens=3, eos_token_id=None, pad_token_id=0
        ... )
        >>> written.pattern(1).shape, written.inputs["input_ids"].shape, written.output.shape
        (torch.Size([1, 2, 5, 5]), torch.Size([1, 5]), torch.Size([1, 6]))
    """
    check_inputs("trace", args, batch)
    whose = getattr(model, "__self__", None)
    with tracing(whose if isinstance(whose, nn.Module) else model) as kept, torch.no_grad():  # type: ignore[arg-type]
        kept.output = model(*args, **batch)
    given = _integers(args, batch)
    ids = kept.inputs.get("input_ids", given.get("input_ids"))
    # What generate was given and its steps were not, an encoder's tokens for one; and of all only what fits the tokens.
    fits = {name: value for name, value in given.items() if ids is not None and value.shape == ids.shape}
    kept.inputs = {**fits, **kept.inputs}
    if not kept.sites:
        raise SpecError(sentence("trace", "the forward ran no attention", "a trace keeps the patterns of one forward"))
    return kept
