"""Peers that come with a runtime of their own: ONNX Runtime, OpenVINO and zentorch, each called by its own op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers import Ready, Refusal, written
from headwise.testing.calls import Call

__all__ = ["RUNTIMES"]


def _same_heads(call: Call) -> None:
    if call.q.shape[1] != call.k.shape[1]:
        raise Refusal("its op has no grouped heads")


def _float(added: Tensor | None) -> Tensor | None:
    """What is added, with the lowest finite number for -inf: all three add it before they look for the largest."""
    return None if added is None else added.clamp(min=torch.finfo(added.dtype).min)


# --- ONNX Runtime ------------------------------------------------------------------------------------------------


def _onnxruntime(call: Call) -> Ready:
    """MultiHeadAttention of com.microsoft: heads beside the width, [B, T, H * D], bound once and read in place."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    _same_heads(call)
    types = {torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16}
    if call.q.dtype not in types:
        raise Refusal("its CPU op has no bfloat16")
    said = written(call)
    inputs = {name: _beside(x) for name, x in (("query", call.q), ("key", call.k), ("value", call.v))}
    if said.added is not None:
        added = _float(said.added)
        assert added is not None
        shape = (*added.shape[:2], call.q.shape[2], call.k.shape[2])
        inputs["bias"] = added.expand(shape).contiguous().numpy()
    node = helper.make_node(
        "MultiHeadAttention",
        ["query", "key", "value", *(["", "", "bias"] if "bias" in inputs else [])],
        ["out"],
        domain="com.microsoft",
        num_heads=call.q.shape[1],
        unidirectional=int(said.causal),
    )
    kind = types[call.q.dtype]
    graph = helper.make_graph(
        [node],
        "attention",
        [helper.make_tensor_value_info(name, kind, list(x.shape)) for name, x in inputs.items()],
        [helper.make_tensor_value_info("out", kind, list(inputs["query"].shape))],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Its threads would go on spinning into the turn of the next side.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
    for name, value in values.items():
        bound.bind_ortvalue_input(name, value)
    out = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(inputs["query"]))
    bound.bind_ortvalue_output("out", out)
    B, H, T, D = call.q.shape

    def output(_: Any) -> Tensor:
        return torch.from_numpy(out.numpy()).reshape(B, T, H, D).transpose(1, 2)

    return Ready(lambda: session.run_with_iobinding(bound), output, (inputs, values))


def _beside(x: Tensor) -> Any:
    return x.transpose(1, 2).flatten(2).contiguous().numpy()


# --- OpenVINO ----------------------------------------------------------------------------------------------------


def _openvino(call: Call) -> Ready:
    """ScaledDotProductAttention of opset 13, compiled for these shapes, its inputs read in place."""
    import openvino
    from openvino import opset13

    _same_heads(call)
    types = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
    kind = getattr(openvino.Type, types[call.q.dtype])
    said = written(call)
    tensors = [call.q, call.k, call.v]
    added = _float(said.added)
    if added is not None:
        tensors.append(added)
    parameters = [opset13.parameter(list(x.shape), kind) for x in tensors]
    node = opset13.scaled_dot_product_attention(*parameters, causal=said.causal)
    how = {
        "INFERENCE_PRECISION_HINT": kind,  # its own choice would be bf16 for f32 operands where the CPU has it
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(openvino.Model([node], parameters), "CPU", how)
    request = compiled.create_infer_request()
    held = [_shared(x, kind) for x in tensors]
    for n, tensor in enumerate(held):
        request.set_input_tensor(n, tensor)

    def output(_: Any) -> Tensor:
        found = request.get_output_tensor(0)
        if call.q.dtype == torch.bfloat16:
            return torch.from_numpy(found.data.view("int16").copy()).view(torch.bfloat16)
        return torch.from_numpy(found.data.copy())

    return Ready(lambda: request.infer(share_outputs=True), output, (tensors, held))


def _shared(x: Tensor, kind: Any) -> Any:
    import openvino

    if x.dtype != torch.bfloat16:
        return openvino.Tensor(x.contiguous().numpy(), shared_memory=True)
    return openvino.Tensor(x.contiguous().view(torch.int16).numpy(), openvino.Shape(list(x.shape)), kind)


# --- zentorch ----------------------------------------------------------------------------------------------------


def _zentorch(call: Call) -> Ready:
    """AMD's op, by its own name, as its compiled graphs call it."""
    import zentorch  # noqa: F401  (it registers the op)

    said = written(call)
    added = _float(said.added)
    op = torch.ops.zentorch.zentorch_sdpa.default
    return Ready(
        lambda: op(call.q, call.k, call.v, 0.0, said.causal, attn_mask=added),
        lambda found: found[0],
    )


RUNTIMES: list[tuple[str, str, Callable[[Call], Ready]]] = [
    ("onnxruntime", "runtimes", _onnxruntime),
    ("openvino", "runtimes", _openvino),
    ("zentorch", "zentorch", _zentorch),
]
