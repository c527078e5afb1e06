"""The operator behind compilers and transforms: every case through it, its fakes, torch's own checks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import headwise as hw
from headwise import border, spec
from headwise.backends import TABLE
from headwise.spec import AttentionSpec
from headwise.spec.encoding import FIELDS, decode, encode, unencodable
from headwise.testing import CASES, Call

OPERATOR = torch.ops.headwise.attention.default
BACKWARD = torch.ops.headwise.attention_backward.default
HOLDS_A_FUNCTION = {spec.Rule, spec.ScoreRule}
WITH_FUNCTIONS = [name for name in CASES if HOLDS_A_FUNCTION & set(CASES[name].exercises)]
by_case = pytest.mark.parametrize("name", [name for name in CASES if name not in WITH_FUNCTIONS])


def asked(call: Call, backend: str = "") -> tuple[Any, ...]:
    """The operator's arguments for a call; its seed is that of ``hw.attention`` under torch.manual_seed(5)."""
    options = AttentionSpec(**{name: value for name, value in call.options.items() if name != "gate"})
    said = encode(options)
    torch.manual_seed(5)
    seed = torch.ops.headwise.seed.default(call.q, call.k, call.v) if options.dropout else None
    found = (said.conditions, said.parameters, seed, said.words, said.ints, said.floats, backend)
    return (call.q, call.k, call.v, *found)


def plain(call: Call) -> Call:
    """A call without its gate, which is applied outside of the operator."""
    return Call(call.q, call.k, call.v, {name: value for name, value in call.options.items() if name != "gate"})


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", WITH_FUNCTIONS)
def test_a_case_that_holds_a_function_is_refused_by_its_name(name: str) -> None:
    why = unencodable(AttentionSpec(**CASES[name].make(torch.float32).options))
    assert any(f"a {kind.__name__}" in why for kind in HOLDS_A_FUNCTION & set(CASES[name].exercises))


@by_case
def test_a_case_through_the_operator_is_the_same_call(name: str) -> None:
    call = plain(CASES[name].make(torch.float32))
    out, lse, *_ = OPERATOR(*asked(call))
    wanted = call.run()
    same(out, wanted.out)
    same(lse, wanted.lse)


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITH_FUNCTIONS and CASES[name].gradients])
def test_its_gradients_are_the_same_bits(name: str) -> None:
    call, leaves = plain(CASES[name].make(torch.float32)).fresh()
    leaves = {name: leaf for name, leaf in leaves.items() if name != "gate"}

    def gradients(out: Tensor, lse: Tensor) -> tuple[Tensor | None, ...]:
        total = (out * out.detach().cos()).sum() + lse.masked_fill(lse == -torch.inf, 0.0).sum()
        return torch.autograd.grad(total, list(leaves.values()), allow_unused=True)

    found = gradients(*OPERATOR(*asked(call))[:2])
    wanted = call.run()
    for at, one, other in zip(leaves, found, gradients(wanted.out, wanted.lse), strict=True):
        assert (one is None) == (other is None), at
        if one is not None:
            same(one, other)


@by_case
def test_its_fakes_have_the_shapes_and_strides_of_its_results(name: str) -> None:
    call, _ = CASES[name].make(torch.float32).fresh()
    arguments = asked(call)
    found = OPERATOR(*arguments)
    needs = [True] * (3 + len(arguments[4]))
    rest = (*arguments, *(x.detach() for x in found), needs)
    grads = BACKWARD(torch.ones_like(found[0]), torch.ones_like(found[1]), *rest)
    with FakeTensorMode() as mode:
        blank = torch.utils._pytree.tree_map_only(Tensor, mode.from_tensor, rest)
        fakes = [*OPERATOR(*blank[: len(arguments)]), *BACKWARD(blank[10], blank[11], *blank)]
    for real, fake in zip((*found, *grads), fakes, strict=True):
        assert (real.shape, real.stride(), real.dtype, real.device) == (
            fake.shape,
            fake.stride(),
            fake.dtype,
            fake.device,
        )


CHECKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a mask with tensors": {
        "mask": hw.Causal() & hw.Padding(torch.tensor([3, 7])) | hw.Prefix(1),
        "q_start": torch.tensor([1, 2]),
    },
    "all else": {
        "mask": hw.Window(3, 1),
        "scores": (
            hw.SoftCap(3.0),
            hw.Alibi(torch.rand(4)),
            hw.RelativeBias(torch.randn(4, 3), 1),
            hw.Bias(torch.randn(5, 7)),
        ),
        "scale": 0.3,
        "kv_heads": (0, 0, 0, 1),
        "sinks": torch.randn(4),
        "dropout": 0.2,
    },
}


@pytest.mark.parametrize("backend", ["", "blocked", "reference"])
@pytest.mark.parametrize("name", CHECKED)
def test_torch_finds_no_fault_with_the_operator(name: str, backend: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)
    call, _ = Call(q, k, v, dict(CHECKED[name])).fresh()
    torch.library.opcheck(OPERATOR, asked(call, backend))


def test_torch_finds_no_fault_with_its_backward() -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)
    arguments = asked(Call(q, k, v, dict(CHECKED["all else"])))
    found = OPERATOR(*arguments)
    needs = [True] * (3 + len(arguments[4]))
    rest = (*arguments, *found, needs)
    torch.library.opcheck(BACKWARD, (torch.ones_like(found[0]), None, *rest))


def test_the_code_knows_every_field_of_every_class() -> None:
    known = {kind for kind in vars(spec).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    known -= HOLDS_A_FUNCTION | {spec.AttentionSpec, spec.Cells, spec.Geometry, spec.Intervals}
    known -= {spec.Paged, spec.Quantised}  # operands, which are made dense in front of the border
    assert set(FIELDS) == known
    for kind, names in FIELDS.items():
        assert names == tuple(field.name for field in dataclasses.fields(kind))


@by_case
def test_what_was_written_down_is_read_back(name: str) -> None:
    options = AttentionSpec(**plain(CASES[name].make(torch.float32)).options)
    again = decode(encode(options))
    assert encode(again)[:3] == encode(options)[:3]
    for one, other in zip((again.mask, *again.scores), (options.mask, *options.scores), strict=True):
        assert repr(one) == repr(other)


def test_a_mask_overwritten_before_backward_is_noticed() -> None:
    x, lengths = torch.randn(2, 1, 4, 4, requires_grad=True), torch.tensor([2, 4])
    out = OPERATOR(*asked(Call(x, x, x, {"mask": hw.Padding(lengths)})))[0]
    lengths += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_mask_made_in_inference_mode_may_train() -> None:
    with torch.inference_mode():
        mask = hw.Padding(torch.tensor([2]))
    x = torch.randn(1, 1, 3, 4, requires_grad=True)
    OPERATOR(*asked(Call(x, x, x, {"mask": mask})))[0].sum().backward()
    wanted = torch.autograd.grad(hw.attention(x, x, x, mask=mask).sum(), x)[0]
    same(x.grad, wanted)


def test_the_note_says_which_backend_ran() -> None:
    x = torch.randn(1, 2, 5, 8)
    for at, backend in enumerate(TABLE):
        note = OPERATOR(*asked(Call(x, x, x, {}), backend.name))[-1]
        assert note[0] == at


@pytest.mark.parametrize("device", ["meta", "fake"])
def test_tensors_without_numbers_have_a_result_without_numbers(device: str) -> None:
    with FakeTensorMode() if device == "fake" else torch.device("meta"):
        q, k = torch.empty(2, 4, 5, 8, requires_grad=True), torch.empty(2, 2, 7, 8)
        out = hw.attention(q, k, k, mask=hw.Causal(), dropout=0.1)
        assert out.shape == (2, 4, 5, 8)
        assert torch.autograd.grad(out.sum(), q)[0].shape == q.shape


def test_the_seed_is_the_one_that_an_ordinary_call_draws() -> None:
    x = torch.randn(1, 2, 5, 8)
    torch.manual_seed(3)
    wanted = hw.attention(x, x, x, dropout=0.5)
    torch.manual_seed(3)
    out, _ = border.traced(x, x, x, AttentionSpec(dropout=0.5), None)
    same(out, wanted)
