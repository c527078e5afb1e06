"""Models in use under torch.export, which by default runs Python on tensors without numbers and compiles nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import headwise as hw

FAMILIES = ("bert", "llama", "gpt2", "mistral", "modernbert")  # both ways, and windows both ways
WAYS = {"default": False, "strict": True}

# transformers' own forwards set a context variable, which Dynamo remarks on.
pytestmark = pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Logits(nn.Module):
    """A model as people export it: token ids and a 2-D mask in, one tensor out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        # An encoder knows no cache.
        cache = {"use_cache": False} if self.model.config.model_type not in ("bert", "modernbert") else {}
        output: Tensor = self.model(input_ids=ids, attention_mask=mask, **cache)[0]
        return output


def padded(kind: str, batch: int, length: int) -> Tensor:
    """A 2-D mask whose last row has padding somewhere."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, {"none": slice(0), "left": slice(3), "right": slice(-3, None), "holes": slice(1, 3)}[kind]] = 0
    return mask


def inputs(batch: int, length: int, masked: bool, kind: str = "none") -> tuple[Tensor, ...]:
    ids = torch.randint(3, 64, (batch, length), generator=torch.Generator().manual_seed(length))
    return (ids, padded(kind, batch, length)) if masked else (ids,)


def gap(program: Any, module: nn.Module, args: tuple[Tensor, ...]) -> float:
    """The largest difference of two models at real tokens, in units of the largest output."""
    with torch.no_grad():
        found, wanted = program(*args), module(*args)
    if len(args) > 1:
        found, wanted = found[args[1].bool()], wanted[args[1].bool()]
    return float((found - wanted).abs().max() / wanted.abs().max())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_program_serves_other_masks_and_sizes(name: str, way: str, zoo: Any) -> None:
    """Exported once, with a mask that hides nothing; then other padding, other lengths, other batches."""
    module = Logits(hw.use(zoo.model(name)))
    sizes = {0: torch.export.Dim("B", min=1, max=8), 1: torch.export.Dim("T", min=2, max=64)}
    with torch.no_grad():
        program = torch.export.export(
            module, inputs(2, 10, True), dynamic_shapes=(sizes, sizes), strict=WAYS[way]
        ).module()
    assert "headwise.attention" in program.code
    for batch, length in ((2, 10), (3, 17), (1, 5)):
        for kind in ("none", "left", "right", "holes"):
            assert gap(program, module, inputs(batch, length, True, kind)) < 1e-5, (batch, length, kind)


@pytest.mark.parametrize("kind", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_program_of_one_size_and_another_mask(name: str, kind: str, zoo: Any) -> None:
    module = Logits(hw.use(zoo.model(name)))
    with torch.no_grad():
        program = torch.export.export(module, inputs(2, 10, True, kind)).module()
    for other in ("none", "left", "right", "holes"):
        assert gap(program, module, inputs(2, 10, True, other)) < 1e-5, other


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_program_without_a_mask(name: str, way: str, zoo: Any) -> None:
    module = Logits(hw.use(zoo.model(name)))
    sizes = {0: torch.export.Dim("B", min=1, max=8), 1: torch.export.Dim("T", min=2, max=64)}
    with torch.no_grad():
        program = torch.export.export(module, inputs(2, 10, False), dynamic_shapes=(sizes,), strict=WAYS[way]).module()
    for batch, length in ((2, 10), (3, 17), (1, 5)):
        assert gap(program, module, inputs(batch, length, False)) < 1e-5, (batch, length)


def test_a_float_mask_of_the_users(zoo: Any) -> None:
    """What it hides is the program's input, not what it hid while the program was made."""
    module = Logits(hw.use(zoo.model("llama")))
    least = torch.finfo(torch.float32).min
    causal = torch.zeros(2, 1, 10, 10).masked_fill(torch.ones(10, 10).triu(1).bool(), least)
    ids = inputs(2, 10, False)[0]
    with torch.no_grad():
        program = torch.export.export(module, (ids, causal)).module()
        for mask in (causal, causal.masked_fill(torch.arange(10) < 3, least), causal / 2 + torch.linspace(0, 1, 10)):
            found, wanted = program(ids, mask)[:, 3:], module(ids, mask)[:, 3:]
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize("how", ["observed", "edited", "weights"])
def test_what_no_program_holds_is_refused(how: str, zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))

    class Weights(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            return model(ids, use_cache=False, output_attentions=True).attentions[0]

    block: Any = contextlib.nullcontext()
    if how == "observed":
        block = hw.observe(model, hw.Entropy())
    if how == "edited":
        block = hw.ablate(model, {0: [1]})
    args = inputs(2, 10, False)
    module = Weights() if how == "weights" else Logits(model)
    with pytest.raises(hw.UnsupportedError, match="exported while its heads are observed or edited"):  # noqa: SIM117
        with block, torch.no_grad():
            torch.export.export(module, args)
    assert gap(torch.export.export(Logits(model), args).module(), Logits(model), args) < 1e-5


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_other_tracers(name: str, zoo: Any) -> None:
    """make_fx makes a graph of operations, real tensors included; vmap maps a mask whose numbers nobody may read."""
    module = Logits(hw.use(zoo.model(name)))
    ids, hides_nothing = inputs(2, 10, True)
    mask = padded("left", 2, 10)
    with torch.no_grad():
        for mode in ("fake", "symbolic"):
            graph = make_fx(module, tracing_mode=mode, _allow_non_fake_inputs=True)(ids, hides_nothing)
            assert gap(graph, module, (ids, mask)) < 1e-5, mode
        mapped = torch.vmap(lambda row, real: module(row[None], real[None])[0])
        assert gap(mapped, module, (ids, mask)) < 1e-5
    if name == "llama":  # BERT of transformers itself reads the numbers of a mask there
        with torch.no_grad():
            graph = make_fx(module, tracing_mode="real")(ids, hides_nothing)
        assert gap(graph, module, (ids, mask)) < 1e-5
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert module(mode.from_tensor(ids), mode.from_tensor(mask)).shape[:2] == (2, 10)
