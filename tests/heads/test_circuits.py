"""QK and OV against the scores and outputs of the models themselves, and against dense textbook matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads.circuits import copying, directions, ov, qk, score_scale, virtual
from headwise.heads.factored import FactoredMatrix
from headwise.models.projections import projections

FAMILIES = (
    "llama", "mistral", "mixtral", "qwen2", "gemma", "gemma2", "granite", "starcoder2", "smollm3", "gpt2", "gpt_neox",
    "bert", "roberta", "distilbert", "t5", "bart", "whisper", "vit",
)  # fmt: skip
NORM_FIRST = ("llama", "gemma", "gemma2", "granite", "starcoder2", "gpt2", "gpt_neox", "t5", "whisper", "vit")
ROTARY = ("llama", "mistral", "mixtral", "qwen2", "gemma", "gemma2", "granite", "starcoder2", "smollm3", "gpt_neox")
CHANGES: dict[str, dict[str, Any]] = {
    "gpt_neox": {"rotary_pct": 0.5},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.5},
    "smollm3": {"no_rope_layers": [1, 0]},
}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 16}


def peculiar(model: Any) -> Any:
    """Norms with gains and shifts of their own: those of a new model are all 1 and 0, where folding shows nothing."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for module in model.modules():
            if "norm" in type(module).__name__.lower():
                for parameter in module.parameters():
                    parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model


def given(
    model: Any, batch: dict[str, Tensor], layers: list[nn.Module]
) -> tuple[dict[nn.Module, Tensor], dict[nn.Module, Tensor]]:
    """What each of some layers is given, and what it gives, in one run."""
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
        inputs[module], outputs[module] = args[0].detach().clone(), output

    handles = [layer.register_forward_hook(note) for layer in dict.fromkeys(layers)]
    with torch.no_grad():
        model(**batch)
    for handle in handles:
        handle.remove()
    return inputs, outputs


def with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def assert_scores(model: Any, batch: dict[str, Tensor]) -> None:
    """Every head's scores before the mask, offset by offset, against the model's own rotated queries and keys."""
    trace = hw.trace(model, **batch)
    for layer, site in enumerate(trace.sites):
        p, pattern = projections(model, site), trace.pattern(site)
        x, _ = given(model, batch, [p.q.linear, p.k.linear])
        queries, keys = with_one(x[p.q.linear]), with_one(x[p.k.linear])
        T, S = queries.shape[1], keys.shape[1]
        distance = torch.arange(T)[:, None] - torch.arange(S)
        rotary = any(hasattr(module, "rotary_emb") for module in model.modules())
        for head in range(p.heads):
            own = pattern.q[:, head] @ pattern.k[:, p.kv_heads[head]].mT * pattern.options["scale"]
            ours = torch.full_like(own, torch.nan)
            for d in distance.unique().tolist() if rotary else (None,):
                M = qk(model, layer, head, offset=d, biases=True).to_dense()
                cells = distance == d if rotary else torch.ones_like(distance, dtype=torch.bool)
                ours[:, cells] = (queries @ M @ keys.mT * score_scale(model, layer))[:, cells]
            assert float((ours - own).abs().max() / own.abs().max()) < 1e-5, (site, head)


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_the_models_own(zoo: Any, name: str) -> None:
    assert_scores(zoo.model(name, **CHANGES.get(name, {})), zoo.batch(name, length=5))


@pytest.mark.parametrize(("name", "changes"), [("llama", {"rope_parameters": YARN})], ids=["yarn"])
def test_scores_with_a_factor_of_the_rotation(zoo: Any, name: str, changes: dict[str, Any]) -> None:
    model = zoo.model(name, **changes)
    assert model.model.rotary_emb.attention_scaling != 1
    assert_scores(model, zoo.batch(name, length=5))


def test_several_offsets_are_the_mean(zoo: Any) -> None:
    model = zoo.model("llama")
    mean = torch.stack([qk(model, 1, 2, offset=d).to_dense() for d in (1, 2, 5)]).mean(0)
    ours = qk(model, 1, 2, offset=(1, 2, 5))
    torch.testing.assert_close(ours.to_dense(), mean, atol=1e-5, rtol=1e-5)
    assert ours.rank == 8
    assert not torch.allclose(mean, qk(model, 1, 2).to_dense(), atol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_move_what_the_module_adds(zoo: Any, name: str) -> None:
    """sum_h p_h x~ M_h + bias is the module's output."""
    model, batch = zoo.model(name, **CHANGES.get(name, {})), zoo.batch(name, length=5)
    trace = hw.trace(model, **batch)
    for layer, site in enumerate(trace.sites):
        p = projections(model, site)
        inputs, outputs = given(model, batch, [p.v.linear, p.o.linear])
        x, own = with_one(inputs[p.v.linear]), outputs[p.o.linear]
        patterns = trace.pattern(site).to_dense()
        ours = sum(patterns[:, head] @ x @ ov(model, layer, head, biases=True) for head in range(p.heads))
        ours = ours if p.o_bias is None else ours + p.o_bias.detach()
        assert float((ours - own).abs().max() / own.abs().max()) < 1e-5, site


def textbook_size(module: nn.Module, x: Tensor) -> Tensor:
    eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
    if isinstance(module, nn.LayerNorm):
        return (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("name", NORM_FIRST)
def test_folding_a_norm(zoo: Any, name: str) -> None:
    """Folded, M reads the residual stream over its size; unfolded, what the norm made of it."""
    model, batch = peculiar(zoo.model(name)), zoo.batch(name, length=5)
    names = {
        "gpt2": "ln_1", "t5": "layer_norm", "whisper": "self_attn_layer_norm", "vit": "layernorm_before"
    }  # fmt: skip
    layer = 0
    p = projections(model, layer)
    norm = model.get_submodule(p.site.rpartition(".")[0]).get_submodule(names.get(name, "input_layernorm"))
    x, _ = given(model, batch, [norm, p.q.linear])
    stream, normed = with_one(x[norm] / textbook_size(norm, x[norm])), with_one(x[p.q.linear])
    for head in (0, 3):
        ours = stream @ qk(model, layer, head, fold_norm=True, biases=True) @ stream.mT
        own = normed @ qk(model, layer, head, biases=True) @ normed.mT
        torch.testing.assert_close(ours, own, atol=1e-4, rtol=1e-4)
        # Gemma 2 norms what it adds as well, with gains of 1 + w
        behind = getattr(model.get_submodule(p.site.rpartition(".")[0]), "post_attention_layernorm", None)
        gain = 1 + behind.weight.detach() if name == "gemma2" and behind is not None else 1
        ours = stream @ ov(model, layer, head, fold_norm=True, biases=True)
        own = normed @ ov(model, layer, head, biases=True) * gain
        torch.testing.assert_close(ours, own, atol=1e-4, rtol=1e-4)


def test_the_cross_attention_of_whisper_folds_its_own_norm_and_none_of_the_encoders(zoo: Any) -> None:
    model = peculiar(zoo.model("whisper"))
    layer = hw.sites(model).index("model.decoder.layers.1.encoder_attn")
    p = projections(model, layer)
    norm = model.model.decoder.layers[1].encoder_attn_layer_norm
    W_Q, W_K = p.q.weight(2).detach() * norm.weight.detach(), p.k.weight(2).detach()
    W_Q = W_Q - W_Q.mean(1, keepdim=True)
    torch.testing.assert_close(qk(model, layer, 2, fold_norm=True).to_dense(), W_Q.T @ W_K, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ov(model, layer, 2, fold_norm=True).to_dense(), ov(model, layer, 2).to_dense())


def slices(weight: Tensor, head: int, width: int) -> Tensor:
    return weight.detach().double()[head * width : (head + 1) * width]


def test_between_tokens_of_a_gemma(zoo: Any) -> None:
    """Grouped heads, embeddings times sqrt(M), norms of 1 + w: all written out in float64."""
    model = peculiar(zoo.model("gemma2"))
    layer = model.model.layers[1]
    E = model.model.embed_tokens.weight.detach().double() * 32**0.5
    U = model.lm_head.weight.detach().double()
    W_Q, W_K = slices(layer.self_attn.q_proj.weight, 3, 8), slices(layer.self_attn.k_proj.weight, 1, 8)
    W_V, W_O = slices(layer.self_attn.v_proj.weight, 1, 8), slices(layer.self_attn.o_proj.weight.T, 3, 8).T
    before, behind = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
    last = model.model.norm.weight
    g, a, f = (1 + weight.detach().double() for weight in (before, behind, last))
    options = {"between": "tokens"}
    for fold, gains in ((False, (1, 1, 1)), (True, (g, a, f))):
        before_, behind_, last_ = gains
        dense = (E * before_) @ W_Q.T @ W_K @ (E * before_).T
        ours = qk(model, 1, 3, fold_norm=fold, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(ours.to_dense().double(), dense, atol=1e-3, rtol=1e-4)
        dense = (E * before_) @ W_V.T @ W_O.T @ torch.diag(torch.ones(32).double() * behind_ * last_) @ U.T
        ours = ov(model, 1, 3, fold_norm=fold, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(ours.to_dense().double(), dense, atol=1e-3, rtol=1e-4)


def test_between_tokens_of_models_that_scale(zoo: Any) -> None:
    granite = zoo.model("granite", **CHANGES["granite"])
    E, U = granite.model.embed_tokens.weight.detach() * 3, granite.lm_head.weight.detach() / 4
    torch.testing.assert_close(
        ov(granite, 0, 1, between="tokens").to_dense(), E @ ov(granite, 0, 1).to_dense() @ U.T, atol=1e-4, rtol=1e-4
    )
    t5 = zoo.model("t5")
    layer = hw.sites(t5).index("decoder.block.0.layer.0.SelfAttention")
    E, U = t5.shared.weight.detach(), t5.lm_head.weight.detach() * 32**-0.5
    torch.testing.assert_close(
        ov(t5, layer, 1, between="tokens").to_dense(), E @ ov(t5, layer, 1).to_dense() @ U.T, atol=1e-4, rtol=1e-4
    )


def test_biases_between_tokens(zoo: Any) -> None:
    model = peculiar(zoo.model("gpt2"))
    E = with_one(model.transformer.wte.weight.detach())
    dense = E @ qk(model, 0, 1, biases=True).to_dense() @ E.T
    torch.testing.assert_close(qk(model, 0, 1, between="tokens", biases=True).to_dense(), dense, atol=1e-4, rtol=1e-4)
    dense = E @ ov(model, 0, 1, biases=True).to_dense() @ model.lm_head.weight.detach().T
    torch.testing.assert_close(ov(model, 0, 1, between="tokens", biases=True).to_dense(), dense, atol=1e-4, rtol=1e-4)


def test_scales_are_the_models_own(zoo: Any) -> None:
    assert score_scale(zoo.model("t5"), 0) == 1.0
    assert score_scale(zoo.model("gemma2"), 0) == pytest.approx(2**-0.5)
    assert score_scale(zoo.model("gpt2", scale_attn_by_inverse_layer_idx=True), 1) == pytest.approx(8**-0.5 / 2)


def test_virtual_heads(zoo: Any) -> None:
    model = zoo.model("gpt2")
    ours = virtual(model, (0, 1), (1, 2))
    torch.testing.assert_close(ours.to_dense(), ov(model, 0, 1).to_dense() @ ov(model, 1, 2).to_dense())
    assert ours.rank == 8
    with pytest.raises(SpecError, match=r"transformer\.h\.0\.attn reads nothing that transformer\.h\.1\.attn writes"):
        virtual(model, (1, 1), (0, 2))
    t5 = zoo.model("t5")
    with pytest.raises(SpecError, match="reads nothing that encoder"):
        virtual(t5, (0, 0), (2, 0))
    assert virtual(t5, (0, 0), (3, 0)).shape == (32, 32)  # the decoder moves what the encoder wrote


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("fold_norm", [False, True])
def test_copying_is_the_ratio_of_eigenvalues_of_the_dense_matrix(zoo: Any, name: str, fold_norm: bool) -> None:
    model = peculiar(zoo.model(name)).double()
    ours = copying(model, fold_norm=fold_norm)
    assert (ours.shape, ours.dtype) == ((2, 4), torch.float64)
    for layer in range(2):
        for head in range(4):
            dense = ov(model, layer, head, between="tokens", fold_norm=fold_norm).to_dense()
            values = torch.linalg.eigvals(dense)
            assert float(ours[layer, head]) == pytest.approx(float(values.sum().real / values.abs().sum()), abs=1e-9)


def test_copying_of_heads_built_to_copy() -> None:
    """One head moves tokens as they are, one their negatives, one nothing."""
    small = {"vocab_size": 12, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 1, "head_dim": 4}
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, intermediate_size=4))
    with torch.no_grad():
        model.lm_head.weight.copy_(model.model.embed_tokens.weight)
        attention = model.model.layers[0].self_attn
        signs = torch.tensor([1.0, -1.0, 0.0]).repeat_interleave(4)
        attention.o_proj.weight.copy_(attention.v_proj.weight.T * signs)
    assert copying(model)[0].tolist() == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)


def test_copying_says_nothing_of_encoders_and_of_heads_that_are_gone(zoo: Any) -> None:
    t5 = zoo.model("t5")
    told = copying(t5).isfinite().all(1)
    assert [site for site, ok in zip(hw.sites(t5), told, strict=True) if ok] == [
        "decoder.block.0.layer.0.SelfAttention",
        "decoder.block.1.layer.0.SelfAttention",
    ]
    whole = copying(zoo.model("gpt2"))
    pruned = hw.prune(zoo.model("gpt2"), {1: [0, 2]})
    ours = copying(pruned)
    torch.testing.assert_close(ours[0], whole[0])
    torch.testing.assert_close(ours[1, :2], whole[1, [1, 3]])
    assert bool(ours[1, 2:].isnan().all())


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_half_precision_is_read_in_float32(zoo: Any, name: str) -> None:
    half = peculiar(zoo.model(name)).bfloat16()
    layer = len(hw.sites(half)) - 2  # of the decoder itself, in all three
    exact = peculiar(zoo.model(name))
    exact.load_state_dict(half.state_dict())
    for read in (qk, ov):
        ours = read(half, layer, 1, between="tokens", fold_norm=True)
        assert ours.a.dtype == torch.float32
        own = read(exact, layer, 1, between="tokens", fold_norm=True).to_dense()
        # Gemma multiplies its embeddings by sqrt(M) in their own dtype, and so are they here
        tolerance = 1e-2 if name == "gemma2" else 1e-6
        assert float((ours.to_dense() - own).abs().max() / own.abs().max()) < tolerance
    torch.testing.assert_close(copying(half), copying(exact), atol=2e-2, rtol=2e-2, equal_nan=True)


def test_reading_runs_none_of_the_users_hooks_and_leaves_the_model_as_it_was(zoo: Any) -> None:
    model = zoo.model("gemma2")
    heard: list[nn.Module] = []
    for module in model.modules():
        module.register_forward_hook(lambda m, _a, _o: heard.append(m))
    before = zoo.state(model)
    qk(model, 1, 0, between="tokens", offset=3, fold_norm=True)
    ov(model, 1, 0, between="tokens", fold_norm=True)
    copying(model, fold_norm=True)
    assert heard == []
    assert zoo.state(model) == before
    assert not any(p.grad is not None for p in model.parameters())
    assert not ov(model, 0, 0).a.requires_grad


def test_directions_of_a_planted_matrix() -> None:
    read, write = torch.zeros(9, 2), torch.zeros(2, 9)
    read[2, 0], read[5, 0], read[7, 1] = 4.0, 2.0, 1.0
    write[0, 3], write[1, 8] = 1.0, -1.0

    class Words:
        def decode(self, ids: list[int]) -> str:
            return f"w{ids[0]}"

    first, second = directions(FactoredMatrix(read, write), Words(), count=2, tokens=2)
    assert first["strength"] == pytest.approx(20**0.5)
    assert [word for word, _ in first["read"]] == ["w2", "w5"]
    assert first["write"][0] == ("w3", pytest.approx(1.0))
    assert second["read"][0] == ("w7", pytest.approx(1.0))
    assert "w8" not in [word for word, _ in second["write"]]  # it is lowered
    assert directions(FactoredMatrix(read, write), count=1)[0]["read"][0][0] == 2


def test_real_heads_of_a_real_model() -> None:
    model, _ = hw.load("smollm2")
    found = copying(model)
    assert found.shape == (30, 9)
    assert bool((found.abs() <= 1).all())
    W_E = model.model.embed_tokens.weight.detach().double()
    v, o = model.model.layers[28].self_attn.v_proj.weight, model.model.layers[28].self_attn.o_proj.weight
    middle = slices(o.T, 5, 64) @ W_E.T @ W_E @ slices(v, 1, 64).T
    values = torch.linalg.eigvals(middle)
    assert float(found[28, 5]) == pytest.approx(float(values.sum().real / values.abs().sum()), abs=1e-6)


def test_refusals(zoo: Any) -> None:
    for name in ("qwen3", "gemma3"):
        with pytest.raises(UnsupportedError, match=r"norms its queries and keys.*no bilinear form"):
            qk(zoo.model(name), 0, 0)
        assert ov(zoo.model(name), 0, 0).rank == 8
    llama, gpt2, bert, t5 = (zoo.model(name) for name in ("llama", "gpt2", "bert", "t5"))
    with pytest.raises(SpecError, match=r"head is 4; .* has heads 0 to 3"):
        qk(llama, 0, 4)
    with pytest.raises(SpecError, match="there is no site 9"):
        ov(llama, 9, 0)
    with pytest.raises(SpecError, match='between is "residual" or "tokens"'):
        ov(llama, 0, 0, between="words")
    with pytest.raises(SpecError, match="no rotary embedding"):
        qk(gpt2, 0, 0, offset=1)
    for offset in ([], [1.5], 1.5, "1"):
        with pytest.raises(SpecError, match="how far the key lies before"):
            qk(llama, 0, 0, offset=offset)  # type: ignore[arg-type]
    for read in (qk, ov):
        with pytest.raises(UnsupportedError, match="BertModel norms what its layers give"):
            read(bert, 0, 0, fold_norm=True)
    with pytest.raises(UnsupportedError, match="BertModel has no unembedding"):
        ov(bert, 0, 0, between="tokens")
    with pytest.raises(UnsupportedError, match="has no unembedding"):
        copying(bert)
    with pytest.raises(UnsupportedError, match="encoder that a decoder reads"):
        ov(t5, 0, 0, between="tokens")
    with pytest.raises(UnsupportedError, match="from another stack"):
        qk(t5, 3, 0, between="tokens")
    with pytest.raises(UnsupportedError, match=r"^qk: ViTModel reads no tokens"):
        qk(zoo.model("vit"), 0, 0, between="tokens")
    with pytest.raises(SpecError, match=r"^virtual: first is 0; it is \(layer, head\)"):
        virtual(llama, 0, 1)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"^virtual: second is \(1,\); it is"):
        virtual(llama, (0, 1), (1,))  # type: ignore[arg-type]
    assert torch.equal(qk(llama, 0, 0, offset=torch.tensor(3)).a, qk(llama, 0, 0, offset=[3]).a)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="how the weights of its heads lie is not known"):
        qk(zoo.model("opt"), 0, 0)
