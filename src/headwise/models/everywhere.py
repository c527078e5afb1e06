"""torch's own attention op, run by headwise for the duration of a block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.jit._builtins import _register_builtin
from torch.overrides import TorchFunctionMode

from headwise.block import block
from headwise.errors import SpecError, sentence
from headwise.models.dot_product import dot_product
from headwise.models.fused_layers import encoder_layer, multi_head_attention
from headwise.tracing import break_graph, compiling

__all__ = ["everywhere"]


class _Here(threading.local):
    """How deep this thread is inside ``everywhere``; 0 while headwise itself computes."""

    depth = 0
    mode: Any = None  # of this thread, while a block is open in it
    weights: list[Tensor] | None = None  # what the next call of the op hands its pattern to, where it is asked for


_here = _Here()
_lock = threading.Lock()
_entered = 0  # blocks that are open, over all threads
_own = F.scaled_dot_product_attention
_own_module_forward = F.multi_head_attention_forward
_own_has_torch_function = torch.overrides.has_torch_function


def _torchs_own() -> bool:
    """Whether torch itself computes: outside of a block, and where torch.jit.trace writes down what torch does."""
    return not _here.depth or bool(torch.jit.is_tracing())  # type: ignore[attr-defined]  # it is not in torch's list of names


def _instead(*args: Any, **kwargs: Any) -> Tensor:
    """Torch's op by headwise."""
    if _torchs_own():
        return _own(*args, **kwargs)
    # A backend of ours may call torch's op, and must then reach torch.
    depth, _here.depth = _here.depth, 0
    try:
        return dot_product(_own, _here.weights, *args, **kwargs)
    finally:
        _here.depth = depth


def _module_forward(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """What nn.MultiheadAttention computes, by torch's own code; with weights wanted, it calls the op all the same.

    Left alone it would form weights, and drop some of them before it returns them. Those returned here are whole.
    """
    if _torchs_own() or compiling():
        return _own_module_forward(*args, **kwargs)
    wanted = kwargs["need_weights"]
    if wanted:
        # Beside a mask torch reads the causal flag as a hint and looks at the mask alone; without one it refuses it.
        kwargs = {**kwargs, "need_weights": False, "is_causal": kwargs["is_causal"] and kwargs["attn_mask"] is None}
    box: list[Tensor] = []
    _here.weights = box if wanted else None
    try:
        out, _ = _with_our_op()(*args, **kwargs)
    finally:
        _here.weights = None
    if not wanted:
        return out, None
    weights = box[0].mean(1) if kwargs["average_attn_weights"] else box[0]
    return out, weights if out.dim() == 3 else weights.squeeze(0)


def _with_our_op() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Torch's code of the module, in whose eyes torch's op is ours. Below a mode nothing else could reach it."""
    names = {**vars(F), "scaled_dot_product_attention": _instead}
    code = FunctionType(_own_module_forward.__code__, names, argdefs=_own_module_forward.__defaults__)
    names["multi_head_attention_forward"] = code  # what it hands to other modes
    return code


def _fused(own: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """One of torch's functions of its inference path, by headwise where a block is open."""

    def instead(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if _torchs_own() else ours(own, *args, **kwargs)

    return instead


class _HasTorchFunction:
    """Whether anything but our own mode looks at torch's calls, so that torch's modules take the path they always take.

    Their inference path is closed to every mode; what it calls is ours, so it may stay open to this one. It stands in
    torch's namespace while a block is open and is equal to torch's own, for the tables that torch's compilers make.
    """

    def __call__(self, operands: Any) -> bool:
        if not _torchs_own() and not compiling():
            plain = all(x is None or type(x) is Tensor or type(x) is torch.nn.Parameter for x in operands)
            modes = torch.overrides._get_current_function_mode_stack()
            if plain and all(type(mode) is _Everywhere for mode in modes):
                return False
        return bool(_own_has_torch_function(operands))

    def __eq__(self, other: object) -> bool:
        return other is self or other is _own_has_torch_function

    def __hash__(self) -> int:
        return hash(_own_has_torch_function)


_has_torch_function = _HasTorchFunction()
_register_builtin(_has_torch_function, "aten::has_torch_function")  # what it is to TorchScript, as torch's own

_REPLACED: dict[Any, Callable[..., Any]] = {
    _own: _instead,
    _own_module_forward: _module_forward,
    torch._native_multi_head_attention: _fused(torch._native_multi_head_attention, multi_head_attention),
    torch._transformer_encoder_layer_fwd: _fused(torch._transformer_encoder_layer_fwd, encoder_layer),
}


class _Everywhere(TorchFunctionMode):
    """Catches torch's op and what its modules compute, under whatever name; everything else passes."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


def everywhere() -> contextlib.AbstractContextManager[None]:
    """Sends torch's ``scaled_dot_product_attention`` through headwise for the duration, with torch's exact meaning.

    It reaches every caller in this thread: ``nn.MultiheadAttention``, ``nn.TransformerEncoder`` and models of the
    user's own, and both functions of torch's inference path, which compute attention inside. A result has torch's
    numbers, gradients, dtype (autocast included), strides and errors: causal is the top-left rule, bool masks keep,
    float masks are added, a ``CausalBias`` is the mask that it names, nested tensors are attended to sequence by
    sequence, inputs may have any number of leading axes. torch.func and forward mode go through. A graph that is made
    inside (torch.compile, torch.export) calls headwise or torch's own op, whichever it can hold; torch.jit writes down
    torch's own.

    What differs: a row of nn.MultiheadAttention that sees no key gives 0 on every path, where torch's depends on the
    path; the weights that it returns are those before dropout, whose rows add up to 1 (outside of compiled code).

    Raises:
        UnsupportedError: an operand is of a subclass of Tensor that is more than a tensor.

    Example:
        >>> import torch, headwise as hw
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.ones(1, 3, 8)
        >>> with torch.no_grad():
        ...     plain = layer(x, x, x, need_weights=False)[0]
        ...     with hw.everywhere():
        ...         ours = layer(x, x, x, need_weights=False)[0]
        >>> torch.allclose(plain, ours, atol=1e-6)
        True
    """
    if torch.compiler.is_dynamo_compiling():
        what, rule = (
            "the block is opened inside a compiled function",
            "it changes what torch's op is, which no graph holds",
        )
        break_graph(sentence("everywhere", what, rule, todo="Open it around the call of the compiled function."))
    return _block()


@block("hw.everywhere")
def _block() -> Iterator[None]:
    thread = threading.get_ident()
    _open()
    _here.depth += 1
    if _here.depth == 1:  # one mode a thread, whichever block ends last
        _here.mode = _Everywhere()
        _here.mode.__enter__()
    try:
        yield
    finally:
        if threading.get_ident() != thread:
            raise SpecError(
                sentence(
                    "everywhere",
                    "a block was closed in another thread than the one that opened it",
                    "it says what torch's op is in its own thread, where it stays in force",
                    todo="Open and close a block in one thread; each thread has blocks of its own.",
                )
            )
        _here.depth -= 1
        if _here.depth == 0:
            _here.mode.__exit__(None, None, None)
        _close()


def _open() -> None:
    """Puts ours in torch's namespace with the first block; torch's own modules look there."""
    global _entered
    with _lock:
        _entered += 1
        torch.overrides.has_torch_function = _has_torch_function  # type: ignore[assignment]


def _close() -> None:
    """Puts torch's own back with the last block."""
    global _entered
    with _lock:
        _entered -= 1
        if _entered == 0:
            torch.overrides.has_torch_function = _own_has_torch_function
