"""The Transformer: against torch's own, cached against uncached, and trained until it solves its task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import AttentionConfig, Rotary, Transformer
from headwise.nn.transformer import Decoder, Encoder, EncoderLayer, FeedForward, sinusoids

F64 = torch.float64


def copied(ours: nn.Module, theirs: nn.Module, cross: bool) -> None:
    """Puts the weights of one of torch's layers in ours."""
    with torch.no_grad():
        pairs = [(ours.self_attn, theirs.self_attn)] + ([(ours.cross_attn, theirs.multihead_attn)] if cross else [])
        for mine, other in pairs:
            for name, weight, bias in zip(
                "qkv", other.in_proj_weight.chunk(3), other.in_proj_bias.chunk(3), strict=True
            ):
                getattr(mine, f"{name}_proj").weight.copy_(weight)
                getattr(mine, f"{name}_proj").bias.copy_(bias)
            mine.o_proj.load_state_dict(other.out_proj.state_dict())
        ours.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
        ours.feed_forward.down.load_state_dict(theirs.linear2.state_dict())
        for n, norm in enumerate(ours.norms):
            norm.load_state_dict(getattr(theirs, f"norm{n + 1}").state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_stacks_equal_torchs(norm: Any) -> None:
    make: dict[str, Any] = {"norm_first": norm == "pre", "batch_first": True, "dropout": 0.0, "dtype": F64}
    config = AttentionConfig(12, 3)
    lengths = torch.tensor([7, 4])
    hidden = torch.arange(7) >= lengths[:, None]
    x, y = torch.randn(2, 7, 12, dtype=F64), torch.randn(2, 5, 12, dtype=F64)

    encoder = Encoder(config, 2, d_ff=20, norm=norm, dtype=F64)
    last = nn.LayerNorm(12, dtype=F64) if norm == "pre" else None
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, **make), 2, last, enable_nested_tensor=False)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    for mine, other in zip(encoder.layers, theirs.layers, strict=True):
        copied(mine, other, cross=False)
    if last is not None:
        encoder.norm.load_state_dict(last.state_dict())
    memory = encoder(x, mask=hw.Padding(lengths))
    want = theirs(x, src_key_padding_mask=hidden)
    torch.testing.assert_close(memory[~hidden], want[~hidden], atol=1e-10, rtol=1e-8)

    decoder = Decoder(config, 2, d_ff=20, norm=norm, dtype=F64)
    last = nn.LayerNorm(12, dtype=F64) if norm == "pre" else None
    torchs = nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, 20, **make), 2, last)
    for parameter in torchs.parameters():
        nn.init.normal_(parameter, std=0.5)
    for mine, other in zip(decoder.layers, torchs.layers, strict=True):
        copied(mine, other, cross=True)
    if last is not None:
        decoder.norm.load_state_dict(last.state_dict())
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    out = decoder(y, memory, memory_mask=hw.Padding(lengths))
    torch.testing.assert_close(
        out, torchs(y, memory, tgt_mask=causal, memory_key_padding_mask=hidden), atol=1e-10, rtol=1e-8
    )
    caches = decoder.caches()
    parts = [decoder(y[:, t : t + 1], memory, memory_mask=hw.Padding(lengths), caches=caches) for t in range(5)]
    torch.testing.assert_close(torch.cat(parts, 1), out, atol=1e-10, rtol=1e-8)


def test_sinusoids_equal_their_formula() -> None:
    table = sinusoids(5, 6, start=3)
    for t in range(5):
        for k in range(3):
            angle = torch.tensor((3 + t) / 10_000 ** (2 * k / 6), dtype=F64)
            torch.testing.assert_close(table[t, 2 * k : 2 * k + 2].double(), torch.stack((angle.sin(), angle.cos())))


@pytest.mark.parametrize("options", [{}, {"rotary": Rotary()}, {"kv_heads": 1, "qk_norm": "rms"}], ids=str)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_generating_equals_reading(norm: Any, options: dict[str, Any]) -> None:
    """A token made from caches is the most likely one when the whole is read at once, padded or alone."""
    torch.manual_seed(2)
    model = Transformer(13, AttentionConfig(16, 4, **options), layers=2, norm=norm).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    source, lengths = torch.randint(1, 13, (3, 6)), torch.tensor([6, 1, 4])
    made = model.generate(source, start=0, tokens=7, source_lengths=lengths)
    read = model(source, torch.cat((torch.zeros(3, 1, dtype=torch.long), made[:, :-1]), 1), source_lengths=lengths)
    assert torch.equal(read.argmax(-1), made)
    for row, length in enumerate(lengths.tolist()):
        alone = model.generate(source[row : row + 1, :length], start=0, tokens=7)
        assert torch.equal(alone[0], made[row])


def task(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Digits, the same backwards, and how many there are."""
    lengths = torch.randint(1, 7, (rows,), generator=generator)
    real = torch.arange(6) < lengths[:, None]
    source = torch.randint(2, 12, (rows, 6), generator=generator) * real
    return source, source.gather(1, (lengths[:, None] - 1 - torch.arange(6)).clamp(0)) * real, lengths


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_learns_to_read_backwards(norm: Any) -> None:
    """Trained until every one of 500 new sequences comes out right; 800 steps are twice what it takes."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Transformer(12, AttentionConfig(32, 4), layers=1, d_ff=64, norm=norm)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    test = task(500, torch.Generator().manual_seed(1))
    right = 0.0
    for step in range(1, 801):
        source, target, lengths = task(64, generator)
        before = torch.cat((torch.ones(64, 1, dtype=torch.long), target[:, :-1]), 1)
        logits = model.train()(source, before, source_lengths=lengths, target_lengths=lengths)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0:
            source, target, lengths = test
            made = model.eval().generate(source, start=1, tokens=6, source_lengths=lengths)
            right = float(((made == target) | (target == 0)).all(1).float().mean())
            if right == 1.0:
                break
        for group in optimiser.param_groups:
            group["lr"] = 4e-3 * min(1.0, step / 100) * (1 - step / 900)
    assert right >= 0.99


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EncoderLayer(AttentionConfig(8, 2), norm="before"), "norm is 'before'"),  # type: ignore[arg-type]
        (lambda: Encoder(AttentionConfig(8, 2), 0), "layers is 0"),
        (lambda: Transformer(5, 8, 2), "config is a int"),  # type: ignore[arg-type]
        (lambda: Transformer(0, AttentionConfig(8, 2), 2), "vocabulary is 0"),
        (lambda: Transformer(5, AttentionConfig(8, 2), 1)(torch.zeros(2, 3), torch.zeros(2, 3)), "tokens are integers"),
        (lambda: sinusoids(3, 5), "d_model is 5"),
    ],
)
def test_bad_input(make: Any, said: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=said):
        make()


def test_dropout_is_for_training_only() -> None:
    model = Transformer(7, AttentionConfig(8, 2, dropout=0.5), layers=1, dropout=0.5)
    source, target = torch.randint(1, 7, (2, 4)), torch.randint(1, 7, (2, 3))
    assert not torch.equal(model.train()(source, target), model(source, target))
    assert torch.equal(model.eval()(source, target), model(source, target))
    assert FeedForward(8, 16, dropout=0.5).eval()(torch.ones(1, 1, 8)).shape == (1, 1, 8)
