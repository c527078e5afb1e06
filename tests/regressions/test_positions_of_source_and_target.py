"""A Transformer with a soft cap had no positions at all, and one with ALiBi compared places of source and target, whose
distance changed with every token that was generated."""

import torch
from torch import nn

import headwise as hw
from headwise.nn import AttentionConfig, Transformer

SLOPES = (hw.Alibi(torch.tensor([0.5, 0.25, 0.125, 0.0625])),)


def made(scores: tuple[hw.spec.Rules, ...]) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(9, AttentionConfig(16, 4, scores=scores), layers=1).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def test_a_cap_leaves_positions_in_place() -> None:
    model = made((hw.SoftCap(50.0),))
    target = torch.zeros(1, 2, dtype=torch.long)
    one, two = (model(torch.tensor([words]), target) for words in ([1, 2, 3], [3, 2, 1]))
    assert not torch.allclose(one, two)


def test_generated_as_read() -> None:
    for scores in (SLOPES, (hw.SoftCap(3.0), *SLOPES)):
        model = made(scores)
        source = torch.randint(1, 9, (2, 5))
        words = model.generate(source, start=0, tokens=6)
        before = torch.cat((torch.zeros(2, 1, dtype=torch.long), words[:, :-1]), 1)
        assert torch.equal(model(source, before).argmax(-1), words)
