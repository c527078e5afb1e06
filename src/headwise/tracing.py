"""What torch may do with a call besides running it: compile it, map it, or hand it tensors that hold no numbers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

__all__ = [
    "below_transforms",
    "break_graph",
    "compiling",
    "followed",
    "mapped",
    "number",
    "numberless",
    "plain",
    "readable",
    "recorded",
    "uncompiled",
    "unwrapped",
]

Call = TypeVar("Call", bound=Callable[..., Any])


def followed(*operands: Any) -> bool:
    """Whether torch follows a call rather than only runs it: compiled, exported, transformed, or without numbers.

    ``torch.compiler.is_compiling()`` would also be True for what other threads run while this one compiles.
    """
    return (
        torch.compiler.is_dynamo_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or _a_tracer_sees_it()
        or any(map(numberless, operands))
    )


def recorded(*tensors: Any) -> bool:
    """Whether Python must not branch on numbers of tensors: this thread makes a graph of the call, or they have none.

    torch.export's default way runs Python on tensors without numbers, in torch's tracing modes. Dynamo does not run
    there, so ``torch.compiler.is_dynamo_compiling()`` is False; ``is_compiling()`` is True, but in every thread.
    Derivatives by torch.func leave numbers to be read; an axis that vmap maps does not.
    """
    return (
        torch.compiler.is_dynamo_compiling()
        or _a_tracer_sees_it()
        or any(isinstance(x, Tensor) and not readable(x) for x in tensors)
    )


def compiling() -> bool:
    """Whether this thread compiles or exports; while one does, ``torch.compiler.is_compiling()`` is True in all."""
    return torch.compiler.is_compiling() and recorded()


def _a_tracer_sees_it() -> bool:
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in _TRACERS)


def readable(x: Tensor) -> bool:
    """Whether a tensor's numbers can be looked at: not where vmap maps it, a compiler traces it, or it has none."""
    x = _below_derivatives(x)
    return not (mapped(x) or numberless(x) or _a_tracer_sees_it())


def numberless(x: Any) -> bool:
    """Whether a tensor has a shape and no numbers: on meta, or a tracer's."""
    return isinstance(x, Tensor) and (x.is_meta or isinstance(x, _WITHOUT_NUMBERS))


def mapped(x: Tensor) -> bool:
    """Whether torch.vmap maps an axis of a tensor."""
    return bool(torch._C._functorch.is_batchedtensor(_below_derivatives(x)))


def _below_derivatives(x: Tensor) -> Tensor:
    while torch._C._functorch.is_functorch_wrapped_tensor(x) and not torch._C._functorch.is_batchedtensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


@contextlib.contextmanager
def below_transforms() -> Iterator[None]:
    """Runs operations as torch.func's transforms run them at the bottom, on plain tensors, seen by none of them."""
    if not torch._C._are_functorch_transforms_active():
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    with temporarily_clear_interpreter_stack():
        yield


def unwrapped(x: Tensor) -> Tensor:
    """A tensor without the layers that torch.func's derivatives put around it; one that vmap maps stays as it is."""
    inner = _below_derivatives(x)
    return x if inner is x or mapped(inner) else inner.detach()


def plain(x: Any) -> bool:
    """Whether something is a tensor that every operation knows: of no class of others, as quantised weights are."""
    return type(x) in (Tensor, torch.nn.Parameter) or isinstance(x, _WITHOUT_NUMBERS)


# make_fx and FakeTensorMode see every operation of a thread, but nothing that is done to memory behind torch's back.
_TRACERS = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE)

_WITHOUT_NUMBERS = (
    torch._subclasses.fake_tensor.FakeTensor,
    torch._subclasses.functional_tensor.FunctionalTensor,
)


def number(x: Tensor) -> Any:
    """A tensor of one integer as an int; as it is, which computes alike, where it cannot be looked at."""
    return int(x) if readable(x) else x


# Before 2.7 a break in the graph could not say why.
_BREAKS_SAY_WHY = [int(n) for n in torch.__version__.split(".")[:2]] >= [2, 7]


def break_graph(why: str) -> None:
    """Ends torch.compile's graph here; under ``fullgraph=True`` that is an error, which says why."""
    if _BREAKS_SAY_WHY:
        torch._dynamo.graph_break(msg=why)


def uncompiled(why: str) -> Callable[[Call], Call]:
    """Lets torch.compile leave a function as it is, one break in its graph.

    torch.compiler.disable loads the compiler, which half of all programs never need, so it is asked on first use.
    """

    def decorate(fn: Call) -> Call:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling():
                break_graph(why)
                return torch.compiler.disable(fn)(*args, **kwargs)
            return fn(*args, **kwargs)

        return cast("Call", call)

    return decorate
