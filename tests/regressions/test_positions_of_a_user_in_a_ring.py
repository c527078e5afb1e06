"""A ring with sinks wrote its own positions over those that a user had given ALiBi."""

import torch

import headwise as hw
from headwise.nn import RingCache
from headwise.nn.calls import through


def test_they_stay() -> None:
    cache, layer = RingCache(4, 1), torch.nn.Identity()
    cache.append(torch.zeros(1, 1, 9, 1), torch.zeros(1, 1, 9, 1))
    own = hw.Alibi(torch.ones(1), torch.tensor([50, 51]), torch.arange(6))
    _, (kept, plain) = through(
        "x", layer, cache, None, hw.Causal(), (own, hw.Alibi(torch.ones(1))), torch.zeros(1, 2, 1)
    )
    assert kept is own
    assert isinstance(plain, hw.Alibi)
    assert plain.positions is not None
    assert plain.positions.tolist() == [9, 10]
