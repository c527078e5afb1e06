"""torch.func over calls that were asked for a pattern ended in "must override the setup_context staticmethod"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vjp, vmap

import headwise as hw
from headwise.nn import torch_compat

F64 = torch.float64
CAUSAL = torch.ones(5, 5).triu(1).bool()
# torch loads its forward-mode rules by way of torch.jit.script, which it deprecates itself.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its own kernels
by_jit = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def modules() -> tuple[nn.MultiheadAttention, nn.MultiheadAttention]:
    """torch's own, and one of ours with the same weights."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 2, batch_first=True, dtype=F64)
    ours = torch_compat.MultiheadAttention(12, 2, batch_first=True, dtype=F64)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


# Each transform of a function of [2, 5, 12], over three inputs.
TRANSFORMS: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], Any]] = {
    "vmap": lambda f, x: vmap(f)(x),
    "grad": lambda f, x: grad(lambda y: f(y).sin().sum())(x[0]),
    "vmap of grad": lambda f, x: vmap(grad(lambda y: f(y).sin().sum()))(x),
    "grad of vmap": lambda f, x: grad(lambda y: vmap(f)(y).sin().sum())(x),
    "vjp": lambda f, x: vjp(f, x[0])[1](torch.ones_like(f(x[0])))[0],
    "jacrev": lambda f, x: jacrev(f)(x[0, :1]),
    "grad of grad": lambda f, x: grad(lambda y: grad(lambda z: f(z).sin().sum())(y).cos().sum())(x[0]),
    "jacrev of jacrev": lambda f, x: jacrev(jacrev(lambda y: f(y).sin().sum()))(x[0, :1, :2]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("part", ["out", "weights", "both"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("which", ["everywhere", "drop-in"])
def test_a_module_asked_for_weights(name: str, part: str, masked: bool, which: str) -> None:
    theirs, ours = modules()
    x = draw(3, 2, 5, 12)

    def of(module: nn.MultiheadAttention) -> Callable[[Tensor], Tensor]:
        def f(y: Tensor) -> Tensor:
            mask = CAUSAL[: y.shape[1], : y.shape[1]] if masked else None
            out, weights = module(y, y, y, attn_mask=mask, average_attn_weights=False)
            return {"out": out, "weights": weights, "both": torch.cat([out.flatten(), weights.flatten()])}[part]

        return f

    want = TRANSFORMS[name](of(theirs), x)
    if which == "everywhere":
        with hw.everywhere():
            got = TRANSFORMS[name](of(theirs), x)
    else:
        got = TRANSFORMS[name](of(ours), x)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if not name.endswith(("of grad", "of jacrev"))])
def test_a_module_that_is_not(name: str) -> None:
    theirs, _ = modules()
    x = draw(3, 2, 5, 12)
    f = lambda y: theirs(y, y, y, need_weights=False)[0]  # noqa: E731
    with hw.everywhere():
        got = TRANSFORMS[name](f, x)
    torch.testing.assert_close(got, TRANSFORMS[name](f, x), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("need_weights", [False, True])
def test_an_ensemble_of_modules(need_weights: bool) -> None:
    many = [nn.MultiheadAttention(12, 2, batch_first=True, dtype=F64).eval() for _ in range(3)]
    state, buffers = stack_module_state(many)
    x = draw(2, 5, 12)

    def one(parameters: Any) -> Any:
        found = functional_call(many[0], (parameters, {}), (x, x, x), {"need_weights": need_weights})
        return found if need_weights else found[0]

    def loss(parameters: Any) -> Tensor:
        found = one(parameters)
        return (found[0] if need_weights else found).sin().sum()

    assert buffers == {}
    for of in (one, grad(loss)):
        want = vmap(of)(state)
        with hw.everywhere():
            got = vmap(of)(state)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


@by_jit
def test_forward_mode_goes_by_the_definition() -> None:
    """torch's fused kernel has none; its plain path does, and so has the op inside of the block."""
    theirs, _ = modules()
    x, tangent = draw(2, 5, 12), draw(2, 5, 12, seed=1)
    of = {need: (lambda y, need=need: theirs(y, y, y, need_weights=need)[0]) for need in (False, True)}
    want = jvp(of[True], (x,), (tangent,))
    for need in (False, True):
        with hw.everywhere():
            got = jvp(of[need], (x,), (tangent,))
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)
    small = x[:1, :2]
    with hw.everywhere():
        got = hessian(lambda y: of[False](y).sin().sum())(small)
    torch.testing.assert_close(got, hessian(lambda y: of[True](y).sin().sum())(small), rtol=1e-9, atol=1e-11)


@by_jit
@pytest.mark.parametrize("need_weights", [False, True])
def test_forward_mode_of_the_drop_in(need_weights: bool) -> None:
    theirs, ours = modules()
    x, tangent = draw(2, 5, 12), draw(2, 5, 12, seed=1)
    part = 1 if need_weights else 0
    want = jvp(lambda y: theirs(y, y, y)[part], (x,), (tangent,))
    got = jvp(lambda y: ours(y, y, y, need_weights=need_weights)[part], (x,), (tangent,))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


def test_forward_mode_of_attend_is_the_definitions_or_a_sentence() -> None:
    x, tangent = draw(1, 2, 5, 8), draw(1, 2, 5, 8, seed=1)
    layer = hw.MultiHeadAttention(8, 2, dtype=F64)
    with forward_ad.dual_level():
        q = forward_ad.make_dual(x, tangent)
        for ask in (lambda: hw.attend(q, x, x), lambda: layer.attend(q[0])):
            with pytest.raises(hw.UnsupportedError, match=r"a forward-mode derivative is wanted; .*reference backend"):
                ask()
        got = forward_ad.unpack_dual(hw.attend(q, x, x, backend="reference").lse).tangent
    want = jvp(lambda q: hw.attend(q, x, x, backend="reference").lse, (x,), (tangent,))[1]
    torch.testing.assert_close(got, want)


# hw.attend and hw.Pattern


def operands() -> tuple[Tensor, Tensor, dict[str, Any]]:
    lengths = torch.tensor([5, 3])
    return draw(3, 2, 4, 5, 8), draw(2, 2, 5, 8, seed=1), {"mask": hw.Causal() & hw.Padding(lengths)}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("part", ["out", "lse"])
def test_attend(name: str, part: str) -> None:
    many, k, options = operands()

    def of(backend: str | None) -> Callable[[Tensor], Tensor]:
        def f(q: Tensor) -> Tensor:
            keys, mask = (k[: len(q), : max(1, q.shape[1] // 2)], options["mask"] if len(q) == 2 else hw.Causal())
            found = hw.attend(q, keys, keys, mask=mask, backend=backend, gate=torch.full((q.shape[1],), 0.5, dtype=F64))
            return getattr(found, part).masked_fill(
                found.lse.isinf()[..., None] if part == "out" else found.lse.isinf(), 0
            )

        return f

    want = TRANSFORMS[name](of("reference"), many)
    torch.testing.assert_close(TRANSFORMS[name](of(None), many), want, rtol=1e-9, atol=1e-11)


def test_answers_under_derivatives_are_plain_numbers() -> None:
    many, k, options = operands()
    q, asked = many[0], [hw.Entropy(), hw.TopKeys(2)]
    found: list[Any] = []

    def loss(got: Any) -> Tensor:
        return got.out.sin().sum() + got.lse[0].sum()

    def f(q: Tensor) -> Tensor:
        got = hw.attend(q, k, k, **options, observe=asked)
        bare = hw.Pattern(q, k, **options)
        found.append(
            [got.seen, got.pattern.map(2, 2), got.pattern[0, 1, 2:4, :], got.pattern.facts().lse, bare.entropy()]
        )
        found.append(got.pattern)
        return loss(got)

    got = grad(f)(q)
    torch.testing.assert_close(
        got,
        grad(lambda q: loss(hw.attend(q, k, k, **options, backend="reference")))(q),
        rtol=1e-9,
        atol=1e-11,
    )
    plain = hw.attend(q, k, k, **options, observe=asked)
    seen, small, crop, lse, entropy = found[0]
    torch.testing.assert_close(seen["entropy"], plain.seen["entropy"])
    assert torch.equal(seen["top_keys"].indices, plain.seen["top_keys"].indices)
    torch.testing.assert_close(small, plain.pattern.map(2, 2))
    torch.testing.assert_close(crop, plain.pattern[0, 1, 2:4, :])
    torch.testing.assert_close(lse, plain.lse)
    torch.testing.assert_close(entropy, plain.seen["entropy"])
    torch.testing.assert_close(found[1].received(), plain.pattern.received())  # after the transform too


def test_a_mapped_pattern_says_that_it_answers_nothing() -> None:
    many, k, options = operands()
    sentence = "^Pattern: torch.vmap maps its operands; answers are found from numbers, .* Ask outside of torch.vmap"
    for ask in (
        lambda q: hw.attend(q, k, k, observe=[hw.Entropy()]).out,
        lambda q: hw.attend(q, k, k).pattern.entropy(),
        lambda q: hw.Pattern(q, k, **options)[0, 0, 0, :],
        lambda q: hw.Pattern(q, k).facts().lse,
        lambda q: hw.Pattern(q, k).map(2, 2),
        grad(lambda q: hw.attend(q, k, k, observe=[hw.Entropy()]).out.sum()),
    ):
        with pytest.raises(hw.UnsupportedError, match=sentence):
            vmap(ask)(many)
    entropy = vmap(lambda q: hw.attend(q, k, k, observe=[hw.Entropy()], backend="reference").seen["entropy"])(many)
    torch.testing.assert_close(entropy[1], hw.Pattern(many[1], k).entropy())


def test_functions_of_the_users_are_refused_clearly() -> None:
    many, k, _ = operands()
    rule = hw.Rule(lambda b, h, i, j: i >= j)
    with pytest.raises(hw.UnsupportedError, match="attend: the mask holds a Rule"):
        grad(lambda q: hw.attend(q, k, k, mask=rule).out.sum())(many[0])


def test_dropout_and_weights_of_the_drop_in_under_a_transform() -> None:
    _, ours = modules()
    dropping = torch_compat.MultiheadAttention(12, 2, dropout=0.5, batch_first=True, dtype=F64)
    dropping.load_state_dict(ours.state_dict())
    x = draw(3, 2, 5, 12)
    out, weights = vmap(lambda y: dropping(y, y, y), randomness="different")(x)
    still = vmap(lambda y: ours(y, y, y))(x)
    torch.testing.assert_close(weights, still[1])  # those before dropout
    assert float((out - still[0]).detach().abs().max()) > 0.01
