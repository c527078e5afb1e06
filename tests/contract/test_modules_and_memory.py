"""What users of attention libraries suffer from in modules, tools and memory (USER_CASES A2 to A6), kept here."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from native_here import NATIVE
from torch import Tensor, nn

import headwise as hw
from headwise.nn.convert import rope_pairing
from headwise.nn.paged import PagedCache
from headwise.testing import define, within
from headwise.testing.calls import Call

F64 = torch.float64
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
every_backend = pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, None])


def layer(dtype: torch.dtype = F64, heads: int = 4, **options: Any) -> hw.MultiHeadAttention:
    torch.manual_seed(0)
    return hw.MultiHeadAttention(16, heads, **options).to(dtype)


@pytest.mark.parametrize("width", [8, 4])
def test_both_pairings_of_rotary_have_a_name_and_a_way_between(width: int) -> None:
    """A2.42: the same scores under either, once the weights are permuted; also where only a part of a head turns."""
    ours = layer(heads=2, mask=hw.Causal(), rotary=hw.nn.Rotary(width=width, pairing="halves"))
    other = layer(heads=2, mask=hw.Causal(), rotary=hw.nn.Rotary(width=width, pairing="neighbours"))
    x = torch.randn(2, 7, 16, dtype=F64)
    assert float((other(x) - ours(x)).detach().abs().max()) > 1e-3
    state = ours.state_dict()
    for name in ("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias"):
        state[name] = rope_pairing(state[name], 2, "halves", "neighbours", width)
    other.load_state_dict(state)
    within(other(x), ours(x), 1e-13, "out")


def test_a_drop_in_for_torchs_module_calls_its_output_projection() -> None:
    """A3.50: torch's own never calls it, so that a hook or an adapter on it does nothing."""
    module = hw.nn.torch_compat.MultiheadAttention(16, 4, batch_first=True)
    fired: list[str] = []
    module.out_proj.register_forward_hook(lambda *_: fired.append("out_proj"))
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        module.eval()(x, x, x, need_weights=False)
    assert fired == ["out_proj"]


def test_adapters_wrap_all_four_projections() -> None:
    """A3.50: peft finds them by name, and each learns."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = nn.Sequential(layer(torch.float32))
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=list(PROJECTIONS)))
    tuned(torch.randn(2, 5, 16)).square().sum().backward()
    learned = {name.split(".lora")[0].rsplit(".", 1)[-1] for name, p in tuned.named_parameters() if p.grad is not None}
    assert learned == set(PROJECTIONS)


@pytest.mark.parametrize("size", [1, 3, 16])
@every_backend
def test_a_page_holds_any_number_of_tokens(backend: Any, size: int) -> None:
    """A3.54: pages of 1, 3 and 16 tokens say what contiguous keys say."""
    module = layer(torch.float32, mask=hw.Causal(), kv_heads=2, backend=backend)
    x = torch.randn(2, 11, 16)
    with torch.no_grad():
        cache = PagedCache(page_size=size)
        parts = [module(part, cache=cache) for part in x.split([4, 1, 1, 5], 1)]
        whole = layer(mask=hw.Causal(), kv_heads=2, backend="reference")(x.double())
        within(torch.cat(parts, 1), whole, 1e-5, "out")


def test_a_layer_is_exported_to_onnx_and_run_there(tmp_path: Path) -> None:
    """A3.63: through plain operators, the same numbers."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    module, x = layer(torch.float32, mask=hw.Causal(), kv_heads=2).eval(), torch.randn(2, 6, 16)
    program = torch.export.export(module, (x,)).run_decompositions(hw.decompositions())
    torch.onnx.export(program, (x,), verbose=False).save(tmp_path / "layer.onnx")  # type: ignore[union-attr]
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    within(torch.from_numpy(got), module(x), 1e-5, "out")


@every_backend
def test_it_trains_on_a_cpu(backend: Any) -> None:
    """A4.71: a loss goes down, with a mask and a rule."""
    module = layer(torch.float32, mask=hw.Causal() & hw.Window(3), scores=(hw.SoftCap(5.0),), backend=backend)
    x, want = torch.randn(2, 9, 16), torch.randn(2, 9, 16)
    steps, losses = torch.optim.SGD(module.parameters(), lr=0.1), []
    for _ in range(5):
        loss = (module(x) - want).square().mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)


class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
    """The largest storage that any operation returns, and all of them together."""

    largest = total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.largest = max(self.largest, leaf.untyped_storage().nbytes())
        return out


def long(T: int, D: int = 4, heads: tuple[int, int, int] = (2, 1, 1)) -> tuple[Tensor, ...]:
    return tuple(torch.randn(1, h, T, D) for h in heads)


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_weights_that_nobody_asked_for_are_not_made(backend: str) -> None:
    """A4.73, A6.90: the default call forms no pattern and keeps nothing."""
    with Sizes() as sizes:
        hw.attention(*long(4096), mask=hw.Causal(), backend=backend)
    assert sizes.largest < 4096 * 4096


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
@pytest.mark.parametrize("D", [4, 512])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_heads_stay_linear_in_memory(backend: str, D: int, masked: bool) -> None:
    """A5.76: in float32, with a mask, and at a width beyond 256."""
    T = 2048
    mask = hw.Causal() & hw.Window(40) if masked else hw.Causal() & hw.Window(200)
    with Sizes() as sizes:
        hw.attention(*long(T, D, (4, 2, 2)), mask=mask, backend=backend)
    assert sizes.largest <= max(4 * T * D * 4, T * T)


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions, of Python or not, a piece of work calls; on any machine the same."""
    count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_the_first_call_compiles_nothing(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A5.78: no warm-up, at any new length: the first call does what the second does, and starts no compiler."""
    monkeypatch.setattr(subprocess, "Popen", None)

    def attend(T: int) -> None:
        mask = hw.Causal() if backend == "sdpa" else hw.Causal() & hw.Window(T // 2)
        hw.attention(*long(T), mask=mask, backend=backend)

    attend(17)  # what a process does once, such as importing, is done
    for T in (33, 65, 129):
        first, second = calls_of(lambda: attend(T)), calls_of(lambda: attend(T))  # noqa: B023
        assert first <= second * 1.1, (first, second)


def test_a_warm_up_would_be_seen() -> None:
    known: set[int] = set()

    def attend(T: int) -> None:
        if T not in known:
            known.add(T)
            [str(n) for n in range(100)]

    assert calls_of(lambda: attend(33)) > 1.1 * calls_of(lambda: attend(33))


@pytest.mark.parametrize("make", [lambda: hw.Causal() & hw.Window(4095), lambda: hw.Chunks(8192)])
def test_a_mask_of_any_length_costs_what_one_row_costs(make: Any) -> None:
    """A5.79, A6.87: at a hundred thousand and at a million tokens the mask takes kilobytes, and no rebuilding."""
    for T in (100_000, 1_000_000):
        q = torch.zeros(1, 1, T, 1)
        with Sizes() as sizes:
            hw.Pattern(q, q, mask=make())[0, 0, 98:100, 90:100]
        assert sizes.largest <= 8 * T


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_statistics_take_memory_as_the_rows_do(backend: str) -> None:
    """A6.83: entropy, received mass and top keys of 8192 tokens, in under a hundredth of the pattern a head."""
    T = 8192
    with Sizes() as sizes:
        got = hw.attend(
            *long(T, heads=(1, 1, 1)), mask=hw.Causal(), backend=backend, observe=[hw.Entropy(), hw.Received()]
        )
    assert sizes.largest < T * T * 4 / 16
    assert abs(float(got.seen["received"].sum()) - T) < 1


def test_rows_and_columns_can_be_chosen() -> None:
    """A6.84: a crop of the pattern is made alone, and is what the whole pattern holds there."""
    q, k, v = long(512)
    got = hw.attend(q, k, v, mask=hw.Causal(), observe=[hw.Crop(slice(100, 110), slice(90, 111))])
    whole = (q @ k.mT / 2).masked_fill(~torch.ones(512, 512).tril().bool(), -torch.inf).softmax(-1)
    within(got.seen["crop"], whole[:, :, 100:110, 90:111], 1e-6, "crop")


def test_the_cost_is_said_before_it_is_paid() -> None:
    """A6.88: explain runs nothing and says what a call would take."""
    q = torch.randn(1, 8, 100_000, 64)
    said = str(hw.explain(q, q, q, mask=hw.Causal(), observe=[hw.Entropy()]))
    assert "GFLOP" in said and "GiB" in said and "tiles:" in said


@pytest.mark.parametrize("mask", [None, hw.Causal(), hw.Causal() & hw.Window(2)], ids=["full", "causal", "window"])
@every_backend
def test_the_mass_that_a_key_received(backend: Any, mask: Any) -> None:
    """A6.89: column sums against float64, with grouped heads."""
    call = Call(torch.randn(2, 4, 7, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8), {"mask": mask})
    seen = call.run(backend, [hw.Received()]).seen["received"]
    within(seen, define(call).p.sum(2), 1e-5, "received")


def test_nothing_is_kept_unless_asked() -> None:
    """A6.90: a layer that was called and watched holds what it held before."""
    module, x = layer(), torch.randn(2, 5, 16, dtype=F64)
    before = copy.deepcopy(vars(module))
    module(x)
    module.attend(x, observe=[hw.Entropy()])
    assert vars(module).keys() == before.keys()
    assert not module._forward_hooks
