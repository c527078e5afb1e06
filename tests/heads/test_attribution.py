"""Heads' contributions sum to what their module gives, and their parts of a logit, with the rest, to the logit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnsupportedError
from headwise.heads.attribution import attribution, contributions
from headwise.models.families import LAYOUTS
from headwise.models.projections import projections

FAMILIES = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "granite", "starcoder2", "smollm3",
    "gpt2", "gpt_neox", "bert", "roberta", "distilbert", "t5", "bart", "whisper", "vit",
)  # fmt: skip
CROSSED = ("BertLMHeadModel", "RobertaForCausalLM", "GPT2LMHeadModel")
NORM_FIRST = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "granite", "starcoder2", "smollm3",
    "gpt2", "gpt_neox", "t5", "whisper",
)  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "gpt2": {"layer_norm_epsilon": 0.3},  # large enough to be missed
    "llama": {"rms_norm_eps": 0.3},
    "gemma2": {"final_logit_softcapping": 5.0},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.5},
}


def peculiar(model: Any) -> Any:
    """Norms with gains and shifts of their own, and a bias on whatever may have one."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for module in model.modules():
            if "norm" in type(module).__name__.lower():
                for parameter in module.parameters():
                    parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def crossed(zoo: Any, kind: str) -> tuple[Any, dict[str, Tensor]]:
    """A decoder that reads another model's output, and its batch."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64, "pad_token_id": 0}
    more = {} if kind.startswith("GPT2") else {"intermediate_size": 48, "is_decoder": True}
    config = getattr(transformers, kind.replace("LMHeadModel", "").replace("ForCausalLM", "") + "Config")
    model = getattr(transformers, kind)(config(**sizes, **more, add_cross_attention=True))
    zoo.sharpen(model)
    ids = torch.arange(3, 13)[None]
    return model.eval(), {"input_ids": ids, "encoder_hidden_states": torch.randn(1, 7, 32)}


def outputs(model: Any, batch: dict[str, Tensor]) -> dict[str, list[Tensor]]:
    """What the output projection of each site gave, by hooks."""
    found: dict[str, list[Tensor]] = {}
    handles = []
    for site in hw.sites(model):
        seen = found.setdefault(site, [])
        linear = projections(model, site).o.linear
        handles.append(linear.register_forward_hook(lambda _m, _a, out, seen=seen: seen.append(out)))
    with torch.no_grad():
        model(**batch)
    for handle in handles:
        handle.remove()
    return found


def assert_identity(model: Any, batch: dict[str, Tensor]) -> None:
    own = outputs(model, batch)
    found = contributions(model, **batch)
    assert found.sites == hw.sites(model)
    for site, (whole,) in own.items():
        parts = found.of(site)
        assert parts.shape == (whole.shape[0], projections(model, site).heads, *whole.shape[1:])
        error = (parts.sum(1) + found.bias(site) - whole).abs().max() / whole.abs().max()
        assert float(error) < 1e-5, site
        assert float((parts[:, 0] - parts[:, 1]).abs().max()) > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_and_bias_sum_to_the_modules_output(zoo: Any, name: str) -> None:
    assert_identity(zoo.model(name), zoo.batch(name))


@pytest.mark.parametrize("kind", CROSSED)
def test_heads_of_cross_attention_do_too(zoo: Any, kind: str) -> None:
    model, batch = crossed(zoo, kind)
    assert len(hw.sites(model)) == 4
    assert_identity(model, batch)


def test_every_known_class_of_attention_is_among_them(zoo: Any) -> None:
    models = [zoo.model(name) for name in FAMILIES] + [crossed(zoo, kind)[0] for kind in CROSSED]
    assert {type(projections(m, site).module).__name__ for m in models for site in hw.sites(m)} == set(LAYOUTS)


def test_contributions_with_padding_and_after_pruning(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama", padding="left")
    real = batch["attention_mask"].bool()
    found, own = contributions(model, **batch), outputs(model, batch)
    for site, (whole,) in own.items():
        torch.testing.assert_close(found.of(site).sum(1)[real], whole[real], atol=1e-5, rtol=1e-5)
    assert_identity(hw.prune(zoo.model("gpt2"), {0: [1], 1: [0, 3]}), zoo.batch("gpt2"))


def test_chosen_heads(zoo: Any) -> None:
    found = contributions(zoo.model("gpt2"), **zoo.batch("gpt2"))
    torch.testing.assert_close(found.of(1, [3, 0]), found.of("transformer.h.1.attn")[:, [3, 0]])
    torch.testing.assert_close(found.of(-1), found.of(1))
    assert found.of(0, []).shape == (2, 0, 10, 32)
    for heads, told in (([4], "head is 4;"), (["a"], "head is 'a';"), (4, "heads is 4; it is a list")):
        with pytest.raises(SpecError, match=told):
            found.of(0, heads)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="there is no site 2"):
        found.of(2)


@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("name", NORM_FIRST)
def test_terms_sum_to_the_logit(zoo: Any, name: str, padding: str) -> None:
    if name == "whisper" and padding != "none":
        padding = "none"  # its inputs have no padding
    model = peculiar(zoo.model(name, **CHANGES.get(name, {})))
    batch = zoo.batch(name, padding=padding)
    with torch.no_grad():
        logits = model(**batch).logits
    if name == "gemma2":
        logits = torch.atanh(logits / 5) * 5  # before the cap
    ids = batch.get("decoder_input_ids", batch.get("input_ids"))
    found = attribution(model, **batch)
    real = torch.ones_like(ids) if "decoder_input_ids" in batch else batch.get("attention_mask", torch.ones_like(ids))
    asked = (real[:, 1:] & real[:, :-1]).bool()
    own = logits[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    torch.testing.assert_close(found.logit[:, :-1][asked], own[asked], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.total[:, :-1][asked], own[asked], atol=1e-4, rtol=1e-4)
    assert bool(found.logit[:, -1].isnan().all() and found.total[:, :-1][~asked].isnan().all())
    assert float(found.heads.nan_to_num(0).abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "whisper"])
def test_a_heads_term_is_what_its_contribution_gives(zoo: Any, name: str) -> None:
    """Through norms and unembedding in float64, with sizes of the run, hooks and no code of the implementation."""
    model = peculiar(zoo.model(name))
    batch = zoo.batch(name)
    prefix, last = {"llama": ("model.layers.", "model.norm"), "gemma2": ("model.layers.", "model.norm"),
                    "gpt2": ("transformer.h.", "transformer.ln_f"),
                    "whisper": ("model.decoder.layers.", "model.decoder.layer_norm")}[name]  # fmt: skip
    seen: dict[nn.Module, Tensor] = {}
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.register_forward_hook(lambda m, args, _out: seen.__setitem__(m, args[0].detach().double()))
    added = contributions(model, **batch)
    found = attribution(model, torch.tensor([5, 9]), torch.tensor([8, 8]), **batch).heads[..., -1]
    U = model.get_output_embeddings().weight.detach().double()

    def through(module: Any, x: Tensor) -> Tensor:
        whole, w = seen[module], module.weight.detach().double()
        if isinstance(module, nn.LayerNorm):
            size = (whole.var(-1, unbiased=False, keepdim=True) + module.eps).sqrt()
            return (x - x.mean(-1, keepdim=True)) / size[:, None] * w
        size = (whole.square().mean(-1, keepdim=True) + module.eps if name == "gemma2" else
                whole.square().mean(-1, keepdim=True) + module.variance_epsilon).sqrt()  # fmt: skip
        return x / size[:, None] * (1 + w if name == "gemma2" else w)

    for layer, site in enumerate(hw.sites(model)):
        if not site.startswith(prefix):
            assert bool(found[layer].isnan().all())
            continue
        x = added.of(site).double()
        if name == "gemma2":
            x = through(model.get_submodule(site.rpartition(".")[0]).post_attention_layernorm, x)
        x = through(model.get_submodule(last), x)[:, :, -1]
        own = (x * (U[[5, 9]] - U[8])[:, None]).sum(-1).T
        torch.testing.assert_close(found[layer].double(), own, atol=1e-5, rtol=1e-4)


def test_targets(zoo: Any) -> None:
    model, batch = zoo.model("gpt2"), zoo.batch("gpt2", padding="right")
    ids = torch.full((2, 10), -1)
    ids[0, 9], ids[1, 5] = 7, 11  # row 1 has six real tokens
    one = attribution(model, torch.tensor([7, 11]), **batch)
    two = attribution(model, ids, **batch)
    torch.testing.assert_close(one.heads, two.heads, equal_nan=True)
    assert one.logit.isfinite().nonzero().tolist() == [[0, 9], [1, 5]]
    wrong = attribution(model, ids + 1 - (ids < 0).long(), **batch)
    difference = attribution(model, ids, ids + 1 - (ids < 0).long(), **batch)
    torch.testing.assert_close(difference.heads, one.heads - wrong.heads, atol=1e-5, rtol=1e-5, equal_nan=True)
    torch.testing.assert_close(difference.biases, one.biases - wrong.biases, atol=1e-5, rtol=1e-5, equal_nan=True)
    ids[0, 9] = -1
    assert attribution(model, torch.tensor([7, 11]), ids, **batch).logit.isfinite().nonzero().tolist() == [[1, 5]]
    assert one.mean().shape == (2, 4)
    torch.testing.assert_close(one.mean(), (one.heads[:, :, 0, 9] + one.heads[:, :, 1, 5]) / 2)


def test_a_bias_of_the_unembedding_is_among_the_biases(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    model.lm_head.bias = nn.Parameter(torch.linspace(-1, 1, 64))
    right, wrong = torch.tensor([60, 2]), torch.tensor([3, 33])
    found = attribution(model, right, wrong, **batch)
    torch.testing.assert_close(found.biases[:, -1], (model.lm_head.bias[right] - model.lm_head.bias[wrong]).detach())
    torch.testing.assert_close(found.total[:, -1], found.logit[:, -1], atol=1e-5, rtol=1e-5)


def test_nothing_is_left_on_a_model(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)
    attribution(model, **batch)
    contributions(model, **batch)
    with pytest.raises(ShapeError):
        attribution(model, torch.tensor([[1, 2]]), **batch)
    with pytest.raises(UnsupportedError):  # in the midst of the run
        attribution(model, **batch, nonsense=1)
    assert zoo.state(model) == before


def test_refusals(zoo: Any) -> None:
    gpt2, batch = zoo.model("gpt2"), zoo.batch("gpt2")
    for targets in (
        torch.tensor([64, 1]),
        torch.tensor([1.0, 2.0]),
        torch.tensor([1, 2, 3]),
        torch.tensor([True, True]),
    ):
        with pytest.raises(ShapeError, match=r"token ids below 64, \[B=2,T=10\] with -1 for none, or \[B=2\]"):
            attribution(gpt2, targets, **batch)
    with pytest.raises(
        SpecError, match=r"^attribution: targets is a list; targets are token ids below 64, .* of int64"
    ):
        attribution(gpt2, [1, 2], **batch)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"^attribution: wrong is a int; wrong are token ids"):
        attribution(gpt2, torch.tensor([1, 2]), 3, **batch)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"logits at 1 of 10 places; .* all of them. Leave out logits_to_keep"):
        attribution(gpt2, logits_to_keep=1, **batch)
    with pytest.raises(SpecError, match="no targets and no decoder_input_ids"):  # input_ids are another text
        attribution(zoo.model("t5"), input_ids=batch["input_ids"], labels=batch["input_ids"])
    with pytest.raises(SpecError, match="no targets and no input_ids"):
        attribution(gpt2, inputs_embeds=torch.zeros(1, 3, 32))
    for name, text in (("bert", "has no unembedding"), ("bart", "norms what its layers give"), ("opt", "is not known")):
        with pytest.raises(UnsupportedError, match=text):
            attribution(zoo.model(name), **zoo.batch(name))
