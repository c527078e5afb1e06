"""What people do to modules: adapters, quantisers, sharding, compilers, exporters, functional calls."""

from __future__ import annotations

import copy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import DifferentialAttention, LatentAttention, Rotary

F64 = torch.float64
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
LAYERS: dict[str, Any] = {
    "plain": lambda **make: hw.MultiHeadAttention(16, 4, **make),
    "everything": lambda **make: hw.MultiHeadAttention(
        16, 4, 2, mask=hw.Causal() & hw.Window(3), rotary=Rotary(), qk_norm="rms", sinks="learned", gate="element",
        scores=(hw.SoftCap(5.0), hw.Alibi(nn.Parameter(torch.rand(4, **make)))), **make,
    ),
    "latent": lambda **make: LatentAttention(
        16, 4, kv_rank=8, q_rank=6, nope_dim=4, rope_dim=2, v_dim=6, mask=hw.Causal(), **make
    ),
    "differential": lambda **make: DifferentialAttention(16, 2, mask=hw.Causal(), rotary=Rotary(), **make),
}  # fmt: skip
each = pytest.mark.parametrize("name", list(LAYERS))


def made(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(3)
    layer: nn.Module = LAYERS[name](dtype=dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return layer


@each
def test_compile_in_one_graph(name: str) -> None:
    layer, x = made(name), torch.randn(2, 7, 16, requires_grad=True)
    whole = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(x), layer(x), atol=1e-5, rtol=1e-5)
    for mine, other in zip(*(torch.autograd.grad(f(x).square().sum(), [x]) for f in (whole, layer)), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


@each
def test_export_at_any_length(name: str) -> None:
    layer = made(name).eval()
    sizes = {"x": {0: torch.export.Dim("B", min=1, max=8), 1: torch.export.Dim("T", min=2, max=64)}}
    program = torch.export.export(layer, (torch.randn(2, 7, 16),), dynamic_shapes=sizes)
    assert "headwise.attention" in program.graph_module.code
    plain = program.run_decompositions(hw.decompositions())
    assert "headwise" not in plain.graph_module.code
    for shape in ((2, 7, 16), (1, 3, 16), (5, 31, 16)):
        x = torch.randn(shape)
        for one in (program, plain):
            torch.testing.assert_close(one.module()(x), layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["everything", "latent"])
def test_onnx_runtime_runs_what_was_exported(name: str, tmp_path: Path) -> None:
    import onnxruntime

    layer, x = made(name).eval(), torch.randn(2, 7, 16)
    sizes = {"x": {0: torch.export.Dim("B", min=1, max=8), 1: torch.export.Dim("T", min=2, max=64)}}
    program = torch.export.export(layer, (x,), dynamic_shapes=sizes).run_decompositions(hw.decompositions())
    torch.onnx.export(program, (x,), verbose=False).save(tmp_path / "layer.onnx")  # type: ignore[union-attr]
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    for shape in ((2, 7, 16), (3, 20, 16)):
        x = torch.randn(shape)
        (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), layer(x).detach(), atol=1e-5, rtol=1e-5)


def test_decompositions_refuse_dropout() -> None:
    layer = hw.MultiHeadAttention(16, 4, dropout=0.1).train()
    program = torch.export.export(layer, (torch.randn(2, 7, 16),))
    with pytest.raises(hw.UnsupportedError, match=r"the model has dropout.* Export it in eval"):
        program.run_decompositions(hw.decompositions())


def test_every_kind_of_rule_and_mask_decomposes() -> None:
    class Model(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            mask = (hw.Causal() | hw.Prefix(2)) & hw.Padding(torch.tensor([9, 0]))
            scores = (hw.RelativeBias(torch.arange(20.0).view(4, 5), 2), hw.Bias(torch.zeros(1, 4, 1, 1)))
            options: dict[str, Any] = {"kv_heads": [0, 0, 0, 1], "sinks": torch.ones(4), "gate": torch.rand(4)}
            return hw.attention(q, k, v, mask=mask, scores=scores, scale=0.3, q_start=2, **options)

    args = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 11, 8), torch.randn(2, 2, 11, 6)
    torch.manual_seed(0)
    want = Model()(*args)
    assert bool((want[1] == 0).all()), "a sequence of length 0 has empty rows"
    plain = torch.export.export(Model(), args).run_decompositions(hw.decompositions())
    torch.manual_seed(0)
    torch.testing.assert_close(plain.module()(*args), want, atol=1e-6, rtol=1e-6)


def test_lora_wraps_every_projection() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = made("everything")

        def forward(self, x: Tensor) -> Tensor:
            return self.attn(x)

    model, x = Model().eval(), torch.randn(2, 5, 16)
    want = model(x)
    config = peft.LoraConfig(r=2, target_modules=list(PROJECTIONS), init_lora_weights=True)
    tuned = peft.get_peft_model(copy.deepcopy(model), config).eval()
    torch.testing.assert_close(tuned(x), want)
    trained = {n for n, p in tuned.named_parameters() if p.requires_grad}
    tuned(x).square().sum().backward()
    assert all(any(f"{p}.lora_{ab}" in n for n in trained) for p in PROJECTIONS for ab in "AB")
    assert all(p.grad is not None for n, p in tuned.named_parameters() if n in trained)
    with torch.no_grad():
        for n, p in tuned.named_parameters():
            if "lora_B" in n:
                p.normal_()
    assert not torch.allclose(tuned(x), want)
    torch.testing.assert_close(tuned.merge_and_unload()(x), tuned(x), atol=1e-5, rtol=1e-5)


@each
def test_quantised_projections_are_called(name: str) -> None:
    layer, x = made(name).eval(), torch.randn(2, 5, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch.ao moves to a package of its own, and its dtypes with it
        small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(layer), {nn.Linear}, torch.qint8)
    assert "quantized" in type(small.o_proj).__module__
    assert not any(type(module) is nn.Linear for module in small.modules())
    got, want = small(x), layer(x)
    assert not torch.equal(got, want)
    assert (got - want).abs().max() < 0.15 * want.abs().max()
    if name == "latent":  # whose absorbed form reads a weight that is not there any more
        cache = hw.nn.KVCache()
        parts = torch.cat([small(x[:, n : n + 1], cache=cache) for n in range(5)], 1)
        assert (parts - want).abs().max() < 0.15 * want.abs().max()


@each
def test_functional_calls_and_gradients_of_each_sample(name: str) -> None:
    layer = made(name, F64)
    params = {n: p.detach() for n, p in layer.named_parameters()}
    x = torch.randn(3, 5, 16, dtype=F64)

    def loss(params: dict[str, Tensor], one: Tensor) -> Tensor:
        return torch.func.functional_call(layer, params, (one[None],)).square().sum()

    each_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)
    for n, one in enumerate(x):
        alone = torch.autograd.grad(loss(dict(layer.named_parameters()), one), list(layer.parameters()))
        for (key, _), want in zip(layer.named_parameters(), alone, strict=True):
            torch.testing.assert_close(each_sample[key][n], want, atol=1e-10, rtol=1e-8)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_sharded_parameters() -> None:
    """fully_shard takes the parameters away between calls and brings them back at the call of the module."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        try:
            layer = made("everything")
            x = torch.randn(2, 5, 16)
            want = layer(x).detach()
            sharded = fully_shard(copy.deepcopy(layer), mesh=init_device_mesh("cpu", (1,)))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)  # a Linear's output is a view
                out = sharded(x)
            torch.testing.assert_close(out, want)
            out.square().sum().backward()
            layer(x).square().sum().backward()
            for mine, other in zip(sharded.parameters(), layer.parameters(), strict=True):
                assert mine.grad is not None
                torch.testing.assert_close(mine.grad.full_tensor(), other.grad, atol=1e-5, rtol=1e-5)  # type: ignore[attr-defined]
        finally:
            torch.distributed.destroy_process_group()


@each
def test_state_dicts_copies_and_checkpointing(name: str) -> None:
    layer, x = made(name), torch.randn(2, 5, 16, requires_grad=True)
    twin = LAYERS[name]()
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    again = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    one, two = (torch.autograd.grad(out.square().sum(), [x, *layer.parameters()]) for out in (again, layer(x)))
    for mine, other in zip(one, two, strict=True):
        torch.testing.assert_close(mine, other)
