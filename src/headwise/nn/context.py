"""A context as it was when its keys were made, to tell whether they are still its keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Context"]


@dataclass(frozen=True, eq=False)
class Context:
    """One tensor, and what shows whether it was written since.

    torch counts what is written in place, but not into tensors of inference mode. Of such a one the numbers are kept
    and compared at every call: a context is small beside its keys, in every layer, and beside the products with them.

    Example:
        >>> import torch
        >>> from headwise.nn.context import Context
        >>> with torch.inference_mode():
        ...     words = torch.zeros(1, 3, 8)
        ...     seen = Context.of(words)
        ...     before = seen.is_still(words)
        ...     _ = words.add_(1)
        >>> before, seen.is_still(words)
        (True, False)
    """

    tensor: Tensor
    version: int
    numbers: Tensor | None

    @classmethod
    def of(cls, tensor: Tensor) -> Context:
        """A context [B,S,M] as it is now."""
        if tensor.is_inference():
            return cls(tensor, 0, tensor.clone(memory_format=torch.contiguous_format))
        return cls(tensor, tensor._version, None)

    def is_still(self, tensor: Tensor) -> bool:
        """Whether this is that very tensor, unchanged."""
        if tensor is not self.tensor:
            return False
        if self.numbers is None:
            return tensor._version == self.version
        # As bytes: NaN equals no number, but is still what it was.
        return torch.equal(tensor.contiguous().view(torch.uint8), self.numbers.view(torch.uint8))
