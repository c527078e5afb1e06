"""Each bad input is one clear error: who, what is wrong with its numbers, the rule, the shapes, what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw

Q, K, V = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8), torch.zeros(2, 2, 5, 6)
SHAPES = r"q \[B=2,H=4,T=3,D=8\], k \[B=2,Hk=2,S=5,D=8\], v \[B=2,Hk=2,S=5,E=6\]"


def call(q: Any = Q, k: Any = K, v: Any = V, **options: Any) -> Any:
    return hw.attend(q, k, v, **options)


BAD_SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "heads that do not divide": (
        {"q": torch.zeros(2, 8, 3, 8), "k": torch.zeros(2, 6, 5, 8), "v": torch.zeros(2, 6, 5, 6)},
        (
            r"attend: k has 6 heads, q has 8; the key heads must divide the query heads\. q \[B=2,H=8,T=3,D=8\], "
            r"k \[B=2,Hk=6,S=5,D=8\].*Use 1, 2, 4 or 8 key heads.*kv_heads"
        ),
    ),
    "no key heads": (
        {"k": torch.zeros(2, 0, 5, 8), "v": torch.zeros(2, 0, 5, 6)},
        r"attend: k has 0 heads, q has 4.*Use 1, 2 or 4",
    ),
    "three axes": ({"q": torch.zeros(4, 3, 8)}, r"attend: q has 3 axes; it is \[B,H,T,D\].*\[4,3,8\].*unsqueeze"),
    "key width": (
        {"k": torch.zeros(2, 2, 5, 7)},
        r"k has width 7, q has 8; .*width D\. " + SHAPES.replace("S=5,D=8", "S=5,D=7"),
    ),
    "no width": ({"q": Q[..., :0], "k": K[..., :0]}, r"width 0; a head needs a width D of at least 1"),
    "batch": ({"k": K[:1], "v": V[:1]}, r"k has batch 1, q has 2; .*share the batch.*expand"),
    "batch of values": ({"v": V[:1]}, r"v has batch 1, q has 2"),
    "values of other keys": (
        {"v": torch.zeros(2, 2, 4, 6)},
        r"v has 2 heads and 4 keys, k has 2 and 5; every key has one value",
    ),
    "value heads": ({"v": torch.zeros(2, 4, 5, 6)}, r"v has 4 heads and 5 keys, k has 2 and 5"),
    "dtypes": ({"k": K.double()}, r"k is torch\.float64, q is torch\.float32; .*share one dtype.*k\.to\(q\.dtype\)"),
    "integer operands": ({"q": Q.long(), "k": K.long(), "v": V.long()}, r"q is torch\.int64; .*float32"),
    "devices": ({"v": V.to("meta")}, r"v is on meta, q on cpu; all operands live on one device"),
    "sinks": ({"sinks": torch.zeros(2)}, r"attend: sinks .*; it is \[4\]\. " + SHAPES),
    "gate": ({"gate": torch.zeros(2, 2)}, r"attend: gate .*; it is \[4\] or \[2, 4\] or \[2, 4, 3\]\. " + SHAPES),
    "padding of another length": (
        {"mask": hw.Padding(torch.ones(2, 3, dtype=torch.bool))},
        r"Padding: keep does not fit the call; it must be \[B=2,S=5\]\. keep \[B=2,S=3\]",
    ),
    "padding queries": (
        {"mask": hw.Padding(torch.tensor([1, 2]), queries=torch.ones(2, 5, dtype=torch.bool))},
        r"Padding: queries does not fit the call; it must be \[B=2,T=3\]\. queries \[B=2,T=5\]",
    ),
    "lengths of another batch": (
        {"mask": hw.Padding(torch.tensor([1, 2, 3]))},
        r"Padding: lengths has 3 entries, the batch has 2 rows",
    ),
    "prefix": ({"mask": hw.Prefix(torch.tensor([1]))}, r"Prefix: lengths has 1 entries, the batch has 2 rows"),
    "chunk starts": ({"mask": hw.Chunks(2, torch.tensor([1, 2, 3]))}, r"Chunks: start has 3 entries"),
    "documents": (
        {"mask": hw.Documents(torch.zeros(3, dtype=torch.long))},
        r"Documents: key_ids does not fit the call; it must be \[S=5\] or \[B=2,S=5\].*Give ids .* and key_ids",
    ),
    "blocks": (
        {"mask": hw.Blocks(torch.ones(2, 2, dtype=torch.bool), 2)},
        r"Blocks: keep does not fit T=3, S=5 in tiles of 2; it must be \[nq=2,nk=3\].*keep \[2,2\]",
    ),
    "a mask the wrong way round": (
        {"mask": hw.Dense(torch.ones(5, 3, dtype=torch.bool))},
        r"Dense: keep does not broadcast to the pattern; each axis is 1 or that of \[B=2,H=4,T=3,S=5\].*keep \[5,3\]",
    ),
    "a mask with five axes": (
        {"mask": hw.Dense(torch.ones(1, 1, 1, 3, 5, dtype=torch.bool))},
        r"Dense: keep does not broadcast",
    ),
    "a part of a mask": (
        {"mask": hw.Causal() & (hw.Prefix(2) | hw.Dense(torch.ones(5, 3, dtype=torch.bool)))},
        r"Dense: keep does not broadcast",
    ),
    "a rule's result": (
        {"mask": hw.Rule(lambda b, h, i, j: torch.ones(7, dtype=torch.bool))},
        r"Rule: fn returned a tensor that does not fit",
    ),
    "a bias": (
        {"scores": (hw.Bias(torch.zeros(2, 3, 5)),)},
        r"Bias: tensor does not broadcast.*\[B=2,H=4,T=3,S=5\].*tensor \[2,3,5\]",
    ),
    "slopes": (
        {"scores": (hw.Alibi(torch.zeros(3)),)},
        r"Alibi: slopes does not fit the call; it is \[H=4\] or \[B=2,H=4\]",
    ),
    "a table": (
        {"scores": (hw.RelativeBias(torch.zeros(3, 5), 2),)},
        r"RelativeBias: table has 3 rows, there are 4 heads",
    ),
    "a score rule's result": ({"scores": (hw.ScoreRule(lambda s, b, h, i, j: s[..., :1]),)}, r"ScoreRule: fn returned"),
    "a mask elsewhere": (
        {"mask": hw.Dense(torch.ones(3, 5, dtype=torch.bool, device="meta"))},
        r"mask.* meta, q.* cpu; all operands live on one device",
    ),
    "targets": (
        {"observe": [hw.MassOn(torch.zeros(4, 1, dtype=torch.long))]},
        r"MassOn: targets does not fit the call; it is \[T=3,K\]",
    ),
    "labels": (
        {"observe": [hw.MassWhere(torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.long))]},
        r"MassWhere: k_labels does not fit the call; it is \[S=5\] or \[B=2,S=5\]",
    ),
    "groups": (
        {"observe": [hw.Segments(torch.zeros(5, dtype=torch.long), torch.zeros(5, dtype=torch.long))]},
        r"Segments: q_ids does not fit the call; it is \[T=3\]",
    ),
    "an output projection": (
        {"observe": [hw.Contribution(torch.zeros(8, 8))]},
        r"Contribution: .*does not fit.*\[M,H\*E=24\]",
    ),
}

BAD_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "no tensor": ({"q": [1.0]}, r"attend: q is a list; q, k and v are torch tensors"),
    "a float mask": (
        {"mask": torch.zeros(3, 5)},
        r"attend: mask is a torch\.float32 tensor; .*hw\.Dense\(keep\).*hw\.Bias",
    ),
    "a bool tensor as a mask": ({"mask": torch.ones(3, 5).bool()}, r"mask is a torch\.bool tensor.*hw\.Dense\(keep\)"),
    "True as a mask": ({"mask": True}, r"mask is True; a mask is one of headwise's masks"),
    "a class as a mask": (
        {"mask": hw.Causal},
        r"attend: the class Causal is no mask; a mask is one of headwise's masks\..*Write Causal\(\)\.$",
    ),
    "a class that needs arguments": ({"mask": hw.Dense}, r"the class Dense is no mask; .*Write Dense\(\.\.\.\)\.$"),
    "a class of something else": ({"mask": int}, r"the class int is no mask; .*hw\.Dense\(keep\)"),
    "a word as a mask": (
        {"mask": "causal"},
        r"mask is 'causal'; a mask is one of headwise's masks.*Write hw\.Causal\(\)",
    ),
    "a rule's class alone": (
        {"scores": hw.SoftCap},
        r"the class SoftCap is no score rule; .*Write scores=\(SoftCap\(\.\.\.\),\)\.$",
    ),
    "a class among the rules": ({"scores": [hw.Alibi]}, r"the class Alibi is no score rule; .*scores=\(Alibi\("),
    "a mask's class among the rules": (
        {"scores": [hw.Causal]},
        r"the class Causal is no score rule; .*\(hw\.SoftCap\(",
    ),
    "a rule alone": (
        {"scores": hw.SoftCap(3.0)},
        r"scores is SoftCap.*; scores is a sequence of score rules\. .*Write scores=\(",
    ),
    "a tensor among the rules": ({"scores": (torch.zeros(3, 5),)}, r"scores is a sequence of score rules"),
    "a mask among the rules": ({"scores": (hw.Causal(),)}, r"scores is a sequence of score rules"),
    "scale": ({"scale": float("nan")}, r"scale is nan; it is a finite number, or None for 1/sqrt\(D\)"),
    "scale, a word": ({"scale": "big"}, r"scale is 'big'"),
    "dropout of all": ({"dropout": 1.0}, r"dropout is 1\.0; it is a probability, 0 or more and below 1"),
    "dropout below 0": ({"dropout": -0.1}, r"dropout is -0\.1"),
    "q_start": ({"q_start": 1.5}, r"q_start is 1\.5; q_start is an int or an integer tensor \[B=2\]"),
    "q_start of another batch": (
        {"q_start": torch.tensor([1, 2, 3])},
        r"q_start \[B=3\] of torch.int64; q_start is an int or an integer tensor \[B=2\]",
    ),
    "float q_start": ({"q_start": torch.zeros(2)}, r"q_start is an int or an integer tensor"),
    "too few kv_heads": ({"kv_heads": [0, 1]}, r"kv_heads is \[0, 1\]; it names, for each of the H=4 query heads"),
    "kv_heads beyond the last": ({"kv_heads": [0, 0, 1, 2]}, r"a key/value head 0 to 1"),
    "kv_heads, words": ({"kv_heads": "ab"}, r"kv_heads is .*; it is a list of H=4 ints"),
    "kv_heads, one number": ({"kv_heads": 2}, r"kv_heads is 2; it is a list of H=4 ints"),
    "integer sinks": ({"sinks": torch.zeros(4).long()}, r"sinks is torch\.int64; sinks is a float tensor"),
    "a gate that is no tensor": ({"gate": 1.0}, r"gate is float; gate is a float tensor"),
    "an unknown backend": ({"backend": "cudnn"}, r"there is no backend 'cudnn'; there are .*blocked.*reference"),
    "a backend's class": ({"backend": hw.Pattern}, r"backend is .*Pattern.*; a backend is a name or an object"),
    "an unknown observer": ({"observe": ["entropy"]}, r"observe: 'entropy' is no observer; .*hw\.Entropy\(\)"),
    "an observer's class": ({"observe": [hw.Entropy]}, r"observe: the class Entropy is no observer.*Write Entropy\(\)"),
    "the class of an observer with arguments": ({"observe": [hw.TopKeys]}, r"Write TopKeys\(\.\.\.\)\."),
    "a name as observe": ({"observe": "entropy"}, r"'entropy' is no observer"),
    "two of a name": (
        {"observe": [hw.TopKeys(1), hw.TopKeys(2)]},
        r"two observers are named 'top_keys'; each answer has one key.*name=",
    ),
    "a target that is no key": (
        {"observe": [hw.MassOn(torch.full((3, 1), 5))]},
        r"MassOn: targets run from 5 to 5; a target is a key 0 to S - 1 = 4, or -1 for none",
    ),
    "a rule that returns numbers": (
        {"mask": hw.Rule(lambda b, h, i, j: i - j)},
        r"Rule: fn returned torch\.int64; it returns a bool tensor",
    ),
}

BAD_MAKING: dict[str, tuple[Any, str]] = {
    "align": (lambda: hw.Causal(align="top"), r"Causal: align is 'top'; align is \"end\" .* or \"start\""),
    "window below 0": (lambda: hw.Window(-1), r"Window: before is -1; it counts the other keys .*at least 0, or None"),
    "window of a float": (lambda: hw.Window(1, 2.5), r"Window: after is 2\.5"),
    "prefix of floats": (
        lambda: hw.Prefix(torch.tensor([1.0])),
        r"Prefix: lengths is .*; it is an int, or an integer tensor \[B\]",
    ),
    "padding of one row": (
        lambda: hw.Padding(torch.tensor([True])),
        r"Padding: a bool keep has 1 axes; it is bool \[B,S\]",
    ),
    "padding of a list": (
        lambda: hw.Padding([3, 4]),
        r"Padding: lengths is \[3, 4\]; it is an int, or an integer tensor",
    ),
    "float ids": (lambda: hw.Documents(torch.zeros(3)), r"Documents: ids is torch\.float32; ids are an integer tensor"),
    "ids with three axes": (
        lambda: hw.Documents(torch.zeros(1, 1, 3).long()),
        r"ids has 3 axes; ids are \[T\] or \[B,T\]",
    ),
    "offsets that fall": (
        lambda: hw.Documents.from_offsets(torch.tensor([0, 3, 2])),
        r"from_offsets: offsets is .*rise from 0",
    ),
    "offsets that start late": (lambda: hw.Documents.from_offsets(torch.tensor([1, 3])), r"rise from 0"),
    "offsets of other documents": (
        lambda: hw.Documents.from_offsets(torch.tensor([0, 3]), torch.tensor([0, 1, 2])),
        r"1 query documents, 2 key documents; both sides hold the same documents",
    ),
    "chunks of nothing": (lambda: hw.Chunks(0), r"Chunks: size is 0; a chunk holds at least 1 token"),
    "float blocks": (
        lambda: hw.Blocks(torch.ones(2, 2), 2),
        r"Blocks: keep is torch\.float32; a mask of numbers is ambiguous",
    ),
    "blocks of nothing": (
        lambda: hw.Blocks(torch.ones(2, 2).bool(), 0),
        r"Blocks: size is 0; a tile has 1 to",
    ),
    "blocks of one axis": (lambda: hw.Blocks(torch.ones(2).bool(), 1), r"Blocks: keep has 1 axes; it is \[nq,nk\]"),
    "dense of a list": (lambda: hw.Dense([[True]]), r"Dense: keep is a list; it is a bool tensor"),
    "a rule that is no function": (lambda: hw.Rule(3), r"Rule: fn is a int; it is called with \(b, h, i, j\)"),
    "a mask and a tensor": (
        lambda: hw.Causal() & torch.ones(3),
        r"mask: & got a Tensor; masks combine with masks\. Wrap",
    ),
    "a mask and a class": (
        lambda: hw.Window(2) & hw.Causal,
        r"mask: the class Causal is no mask; masks combine with masks\. Write Causal\(\)\.",
    ),
    "a class and a mask": (lambda: hw.Dense | hw.Causal(), r"the class Dense is no mask; .*Write Dense\(\.\.\.\)\."),
    "a mask or None": (lambda: hw.Causal() | None, r"mask: \| got a NoneType"),
    "cap": (lambda: hw.SoftCap(0), r"SoftCap: cap is 0; it is a number above 0 and at most 1e30"),
    "integer slopes": (
        lambda: hw.Alibi(torch.tensor([1])),
        r"Alibi: slopes is torch\.int64; it is a float tensor \[H\]",
    ),
    "a bool bias": (lambda: hw.Bias(torch.ones(3).bool()), r"Bias: tensor is torch\.bool; .*hw\.Dense\(keep\)"),
    "a flat table": (
        lambda: hw.RelativeBias(torch.zeros(3), 1),
        r"RelativeBias: table has the wrong shape; it is \[H,R\]",
    ),
    "a float zero": (lambda: hw.RelativeBias(torch.zeros(1, 3), 1.0), r"RelativeBias: zero is 1\.0; it is an int"),
    "a score rule that is no function": (lambda: hw.ScoreRule("x"), r"ScoreRule: fn is a str"),
    "no top keys": (lambda: hw.TopKeys(0), r"TopKeys: k is 0; it is an int of at least 1"),
    "fewer than none": (lambda: hw.TopKeys(-3), r"TopKeys: k is -3"),
    "a float k": (lambda: hw.TopKeys(2.0), r"TopKeys: k is 2\.0"),
    "offsets": (lambda: hw.Offsets(-1), r"Offsets: limit is -1; it is an int of at least 0"),
    "float targets": (
        lambda: hw.MassOn(torch.zeros(3, 1)),
        r"MassOn: targets is torch\.float32; it is an integer tensor",
    ),
    "float labels": (lambda: hw.MassWhere(torch.zeros(3), torch.zeros(5)), r"MassWhere: q_labels is torch\.float32"),
    "bool groups": (
        lambda: hw.Segments(torch.zeros(3).bool(), torch.zeros(5).long()),
        r"Segments: q_ids is torch\.bool",
    ),
    "a map of no height": (lambda: hw.Map(0, 4), r"Map: height is 0; it counts pooled cells, at least 1"),
    "a map pooled by sum": (lambda: hw.Map(2, 2, pool="sum"), r"Map: pool is 'sum'; pool is \"mean\" or \"max\""),
}


@pytest.mark.parametrize("name", BAD_SHAPES)
@pytest.mark.parametrize("backend", ["reference", "blocked", None])
def test_shapes_that_disagree(name: str, backend: Any) -> None:
    options, text = BAD_SHAPES[name]
    with pytest.raises(hw.ShapeError, match=f"(?s){text}") as error:
        call(**options, backend=backend)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("name", BAD_VALUES)
def test_options_without_a_meaning(name: str) -> None:
    options, text = BAD_VALUES[name]
    with pytest.raises(hw.SpecError, match=f"(?s){text}") as error:
        call(**options)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("name", BAD_MAKING)
def test_values_that_cannot_be_made(name: str) -> None:
    """What is wrong without a call is said before a call."""
    make, text = BAD_MAKING[name]
    with pytest.raises(hw.HeadwiseError, match=f"(?s){text}") as error:
        make()
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("entry", [hw.attention, hw.attend, hw.explain])
def test_the_error_says_who(entry: Any) -> None:
    with pytest.raises(hw.ShapeError, match=f"^{entry.__name__}: k has width 7"):
        entry(Q, torch.zeros(2, 2, 5, 7), V)
    with pytest.raises(hw.ShapeError, match=r"^Pattern: k has width 7"):
        hw.Pattern(Q, torch.zeros(2, 2, 5, 7))


@pytest.mark.parametrize("name", ["flex", "triton"])
def test_backends_that_do_not_exist_yet(name: str) -> None:
    with pytest.raises(hw.UnavailableError, match=f"attend: backend '{name}' is not available; .*{name}") as error:
        call(backend=name)
    assert isinstance(error.value, ImportError)


def test_an_answer_nobody_asked_for() -> None:
    listed = r"^observe: nothing is named 'entrop'; a key is an observer, entropy, top_keys\.$"
    asked = [hw.Entropy(), hw.TopKeys(1)]
    for backend in (None, "reference", "blocked"):
        seen = call(observe=asked, backend=backend).seen
        for kind in (hw.SpecError, KeyError):
            with pytest.raises(kind, match=listed):
                seen["entrop"]
        assert "entrop" not in seen
        assert seen.get("entrop") is None
    with pytest.raises(hw.SpecError, match=listed):
        hw.Pattern(Q, K).ask(*asked)["entrop"]
    with pytest.raises(hw.SpecError, match=r"no observer was given\. Write observe=\[hw\.Entropy\(\)\]"):
        call().seen["entropy"]


def test_a_refusal_is_not_implemented_and_keeps_its_reason() -> None:
    with pytest.raises(hw.UnsupportedError, match=r"attend: backend 'sdpa' refuses; .*E=6 differs from .*D=8") as error:
        call(backend="sdpa")
    assert isinstance(error.value, NotImplementedError)
    assert list(error.value.reasons) == ["sdpa"]


def test_a_pattern_without_values_cannot_weigh_them() -> None:
    with pytest.raises(hw.SpecError, match=r"Contribution: this pattern has no values; .*Give v to Pattern"):
        hw.Pattern(Q, K).ask(hw.Contribution(torch.zeros(3, 32)))


@pytest.mark.parametrize("options", [o for o, _ in BAD_VALUES.values()] + [o for o, _ in BAD_SHAPES.values()])
def test_nothing_else_is_raised(options: dict[str, Any]) -> None:
    """Each message ends as a sentence and holds no Python address."""
    with pytest.raises(hw.HeadwiseError) as error:
        call(**options)
    text = str(error.value)
    assert text[-1] in ".)"
    assert len(text) < 700
