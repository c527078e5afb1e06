"""Biases of the steps of a generation: one rule that adds the same, or none."""

from __future__ import annotations

import torch
from torch import Tensor

import headwise as hw
from headwise.models.biases import Biases
from headwise.spec import Geometry

CPU = torch.device("cpu")


def take(biases: Biases, tensor: Tensor, T: int, S: int, *, dropped: int = 0, ahead: int = 0) -> bool:
    geometry = Geometry(1, 2, 2, T, S, 4, 4, S - T, CPU)
    reach = torch.arange(S - T, S)[None] + 1 + ahead
    return biases.take(tensor, geometry, S - T, dropped, reach)


def added(biases: Biases, T: int, S: int) -> Tensor:
    """What the joined rule adds to each cell."""
    geometry = Geometry(1, 2, 2, T, S, 4, 4, S - T, CPU)
    return biases.joined(2).apply(torch.zeros(1, 2, T, S), geometry.whole())


def by_distance(table: Tensor, T: int, S: int) -> Tensor:
    """[1, H, T, S] with table[h, d] at distance d behind the query, and numbers of no meaning ahead of it."""
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)
    return torch.where(distance >= 0, table[:, distance.clamp(min=0)], 99.0)[None]


def test_numbers_of_a_distance_become_a_table() -> None:
    table, biases = torch.randn(2, 9), Biases()
    assert take(biases, by_distance(table, 4, 4), 4, 4)
    assert take(biases, by_distance(table, 1, 5), 1, 5)
    assert take(biases, by_distance(table, 3, 8), 3, 8)
    assert isinstance(biases.joined(2), hw.RelativeBias)
    seen = torch.ones(8, 8).tril().bool()
    assert torch.equal(added(biases, 8, 8)[..., seen], by_distance(table, 8, 8)[..., seen])


def test_numbers_of_a_key_become_a_row() -> None:
    row, biases = torch.randn(1, 2, 1, 7), Biases()
    assert take(biases, row[..., :4].expand(-1, -1, 4, -1), 4, 4)
    assert take(biases, row[..., :5], 1, 5)
    assert take(biases, row[..., 2:7], 2, 5, dropped=2)  # a window let go of two keys
    assert torch.equal(added(biases, 7, 7), row.expand(-1, -1, 7, -1))


def test_a_number_for_all_and_none_at_all() -> None:
    for number in (torch.tensor(0.5), torch.zeros(1, 1, 1, 1)):
        biases = Biases()
        assert take(biases, number, 3, 3)
        assert take(biases, number, 1, 4)
        assert torch.equal(added(biases, 4, 4), number.expand(1, 2, 4, 4))


def test_what_one_rule_cannot_say() -> None:
    table = torch.randn(2, 9)
    biases = Biases()
    assert take(biases, by_distance(table, 4, 4), 4, 4)
    other = table.clone()
    other[1, 3] += 1
    assert not take(biases, by_distance(other, 1, 5), 1, 5)
    assert not take(Biases(), torch.randn(1, 2, 4, 4), 4, 4)
    assert not take(Biases(), by_distance(table, 4, 4), 4, 4, ahead=1)  # whose numbers are seen ahead of the query
    hides = by_distance(table, 4, 4)
    hides[0, 0, 3, 0] = float("-inf")
    assert not take(Biases(), hides, 4, 4)
    biases, row = Biases(), torch.randn(1, 2, 1, 5)
    assert take(biases, row[..., :4].expand(-1, -1, 4, -1), 4, 4)
    assert not take(biases, row + 1, 1, 5)
