"""A copy of a Pattern, by deepcopy or from a file, claimed that its tensors had been overwritten."""

import copy
import pickle

import pytest
import torch

import headwise as hw


def pattern() -> hw.Pattern:
    x = torch.randn(1, 2, 5, 4)
    x += 1  # a version that a copy does not have
    return hw.attend(x, x, x, mask=hw.Causal() & hw.Window(2)).pattern


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["deepcopy", "pickle"])
def test_a_copy_is_a_pattern_of_its_own(copied):
    first = pattern()
    second = copied(first)
    assert torch.equal(first.to_dense(), second.to_dense())
    first.q.zero_()
    assert second.entropy().isfinite().all()
    with pytest.raises(hw.HeadwiseError, match="was overwritten"):
        copied(first)


@pytest.mark.parametrize("index", [torch.tensor([0, 1]), torch.tensor(1.0), "a", slice(0, 1.5), slice("a", None), None])
def test_an_index_that_is_none_is_one_sentence(index):
    with pytest.raises(hw.SpecError, match="Pattern: index"):
        pattern()[index]


def test_a_map_of_many_rows_looks_at_those_it_meets():
    x = torch.randn(1, 1, 50, 4)
    found = hw.Pattern(x, x).map(100_000, 1)
    assert int((found > 0).sum()) == 50
