"""What is timed: named calls of attention, sized like real work and drawn like the cases of ``headwise.testing``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import headwise as hw
from headwise.spec import recipes
from headwise.testing.calls import Call, Draw

__all__ = ["BENCHES", "DTYPES", "STRUCTURED", "TIERS", "Bench", "selected", "visible_share"]

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
#: Each tier holds the ones before it: about 10 minutes, about 40, and everything.
TIERS = ("quick", "full", "grid")

Build = Callable[[Draw], Call]
Ask = Callable[[Call], Sequence[Any]]

RUNTIMES = ("onnxruntime", "openvino", "zentorch")
IN_TORCH = ("torch", "unfused")
PACKED = tuple(f"{peer}, packed" for peer in ("torch", *RUNTIMES))


@dataclass(frozen=True, eq=False)
class Bench:
    """One thing to time.

    Attributes:
        name: what ``--only`` searches.
        kind: which function of ``worker`` or ``models`` prepares it.
        axes: what it is, for tables and floors: work, dtype, T, D, B ...
        tier: the smallest profile that it belongs to.
        peers: who is timed beside us, as far as they can do it.
        build: makes the call; None for a whole model.
        ask: the observers of a call; None = none.
        isa: forced with HEADWISE_ISA; None = the best that there is.
    """

    name: str
    kind: str
    axes: dict[str, Any]
    tier: str = "full"
    peers: tuple[str, ...] = ()
    build: Build | None = None
    ask: Ask | None = None
    isa: str | None = None

    def call(self) -> Call:
        """The call, the same numbers every time."""
        assert self.build is not None
        return self.build(Draw(DTYPES[self.axes["dtype"]], seed=0))


BENCHES: dict[str, Bench] = {}


def add(kind: str, axes: dict[str, Any], **given: Any) -> None:
    """Registers a bench under a name made of its axes."""
    said = [str(axes[key]) for key in ("dtype", "work") if key in axes]
    said += [f"{key}={value}" for key, value in axes.items() if key not in ("dtype", "work")]
    if given.get("isa"):
        said.append(f"forced {given['isa']}")
    name = " ".join(said)
    assert name not in BENCHES, name
    BENCHES[name] = Bench(name, kind, axes, **given)


def selected(tier: str, only: Sequence[str] = ()) -> list[Bench]:
    """The benches of a profile; with texts those of every profile whose name holds one of them, or is one."""
    if only:
        return [bench for bench in BENCHES.values() if any(_meant(text, bench.name) for text in only)]
    tiers = TIERS[: TIERS.index(tier) + 1]
    return [bench for bench in BENCHES.values() if bench.tier in tiers]


def _meant(text: str, name: str) -> bool:
    return text == name if text in BENCHES else text in name


# --- masks and scores --------------------------------------------------------------------------------------------


Options = Callable[[Draw, dict[str, int]], dict[str, Any]]


def _documents(draw: Draw, size: dict[str, int]) -> dict[str, Any]:
    """Eight documents of uneven length, packed one behind the other."""
    cuts = draw.ints(size["T"], 7).sort().values
    return {"mask": hw.Causal() & hw.Documents(torch.searchsorted(cuts, torch.arange(size["T"]), right=True))}


def _padding(draw: Draw, size: dict[str, int]) -> dict[str, Any]:
    """Lengths from nearly nothing to nearly all; half of all keys are padding."""
    return {"mask": hw.Padding(torch.linspace(0.02 * size["T"], 0.98 * size["T"], size["B"]).long())}


def _slopes(draw: Draw, size: dict[str, int]) -> dict[str, Any]:
    slopes = torch.tensor([2.0 ** -(8 * (h + 1) / size["H"]) for h in range(size["H"])], dtype=draw.dtype)
    return {"mask": hw.Causal(), "scores": (hw.Alibi(slopes),)}


def _table(draw: Draw, size: dict[str, int]) -> dict[str, Any]:
    return {"mask": hw.Causal(), "scores": (hw.RelativeBias(draw.normal(size["H"], 128), zero=127),)}


WORKS: dict[str, Options] = {
    "full": lambda draw, size: {},
    "causal": lambda draw, size: {"mask": hw.Causal()},
    "window 256": lambda draw, size: {"mask": hw.Causal() & hw.Window(255, 0)},
    "alibi": _slopes,
    "table": _table,
    "documents": _documents,
    "padding 50 %": _padding,
}


#: Masks whose rate on visible cells is held against that of dense causal at the same size: of T tokens and H heads.
STRUCTURED: dict[str, Callable[[int, int], hw.spec.Mask]] = {
    "band of 256": lambda T, H: hw.Causal() & hw.Window(255, 0),
    "band of 1,024": lambda T, H: hw.Causal() & hw.Window(1023, 0),
    "band of 512, both ways": lambda T, H: hw.Window(256, 256),
    "chunks of 512": lambda T, H: recipes.chunked_local(512),
    "packed by 256": lambda T, H: recipes.packed([256] * (T // 256)),
    "packed by 1,024": lambda T, H: recipes.packed([1024] * (T // 1024)),
    "prefix LM": lambda T, H: recipes.prefix_lm(T // 8),
    "longformer": lambda T, H: recipes.longformer(512, 4),
    "longformer, causal": lambda T, H: hw.Causal() & recipes.longformer(1024, 4),
    "big bird": recipes.bigbird,
    "streaming": lambda T, H: recipes.streaming(4, 1024),
    "dilated by 4": lambda T, H: recipes.dilated(255, 4),
    "tree after a past": lambda T, H: recipes.tree([-1, *(n // 2 for n in range(63))]),
    "half padding": lambda T, H: hw.Causal() & hw.Padding(T // 2),
}


def visible_share(call: Call) -> float:
    """The visible share of a pattern's cells, counted by the mask's definition a block of rows at a time."""
    (B, H, T, _), S = call.q.shape, call.k.shape[2]
    geometry = hw.spec.Geometry(B, H, H, T, S, 1, 1, S - T, call.q.device)
    seen = 0.0
    for start in range(0, T, 256):
        rows = slice(start, min(start + 256, T))
        kept = call.options["mask"].keep(hw.spec.Cells(geometry, slice(0, B), slice(0, H), rows, slice(0, S)))
        seen += float(kept.float().mean()) * (rows.stop - rows.start) / T
    return seen


def _structured(mask: Callable[[int, int], hw.spec.Mask], T: int, S: int) -> Build:
    return lambda draw: draw.call(fused=True, B=1, H=8, T=T, S=S, D=64, mask=mask(S, 8))


def _drawn(work: str, B: int = 1, H: int = 8, Hk: int | None = None, T: int = 0, S: int = 0, D: int = 64) -> Build:
    size = {"B": B, "H": H, "T": T, "S": S or T, "D": D}

    def build(draw: Draw) -> Call:
        return draw.call(Hk=Hk, fused=True, **size, **WORKS[work](draw, size))

    return build


# --- forward -----------------------------------------------------------------------------------------------------


def _tier(dtype: str, T: int, D: int, B: int) -> str:
    if D == 64 and B == 1 and T in (512, 2048) and dtype != "f16":
        return "quick"
    if D == 64 or (B == 1 and T in (512, 2048) and dtype != "f16"):
        return "full"
    return "grid"


for _dtype in DTYPES:
    for _work in ("full", "causal"):
        for _D in (64, 80, 128):
            for _T in (16, 128, 512, 2048, 8192):
                for _B in (1, 32) if _T <= 512 else (1,):
                    _flex = ("flex",) if (_D, _T, _B) == (64, 2048, 1) else ()
                    add(
                        "forward",
                        {"dtype": _dtype, "work": _work, "T": _T, "D": _D, "B": _B},
                        tier=_tier(_dtype, _T, _D, _B),
                        peers=(*IN_TORCH, *_flex, *RUNTIMES),
                        build=_drawn(_work, T=_T, D=_D, B=_B),
                    )

for _work, _T, _tier_of, _peers in (
    ("window 256", 2048, "full", (*IN_TORCH, "flex", *RUNTIMES)),
    ("window 256", 8192, "quick", ("torch", "flex")),
    ("alibi", 2048, "quick", (*IN_TORCH, "flex", *RUNTIMES)),
    ("table", 2048, "quick", (*IN_TORCH, "flex", *RUNTIMES)),
    ("documents", 2048, "full", (*IN_TORCH, "flex", *RUNTIMES)),
):
    for _dtype in ("f32", "bf16"):
        add(
            "forward",
            {"dtype": _dtype, "work": _work, "T": _T, "D": 64, "B": 1},
            tier=_tier_of if _dtype == "f32" else "full",
            peers=_peers,
            build=_drawn(_work, T=_T),
        )
for _dtype in ("f32", "bf16"):
    add(
        "forward",
        {"dtype": _dtype, "work": "padding 50 %", "T": 512, "D": 64, "B": 32},
        tier="quick" if _dtype == "f32" else "full",
        peers=(*IN_TORCH, "flex", *RUNTIMES),
        build=_drawn("padding 50 %", B=32, T=512),
    )
    for _T in (128, 16):
        add(
            "forward",
            {"dtype": _dtype, "work": "full", "T": _T, "D": 64, "B": 32, "H": 12},
            tier="quick",
            peers=(*IN_TORCH, *RUNTIMES),
            build=_drawn("full", B=32, H=12, T=_T),
        )
for _work in ("full", "causal"):
    for _T in (512, 2048, 8192):
        add(
            "forward",
            {"dtype": "f32", "work": _work, "T": _T, "D": 64, "B": 1},
            tier="quick" if _T == 2048 else "full",
            peers=("torch",),
            build=_drawn(_work, T=_T),
            isa="avx2",
        )

for _work, _masks in STRUCTURED.items():
    add(
        "structured",
        {"dtype": "f32", "work": _work, "T": 64 if "tree" in _work else 8192, "D": 64, "B": 1},
        build=_structured(_masks, 64 if "tree" in _work else 8192, 8192),
    )

# --- decode, forward + backward, overhead ------------------------------------------------------------------------

for _dtype in ("f32", "bf16"):
    for _S in (8192, 65536):
        add(
            "decode",
            {"dtype": _dtype, "work": "decode 32/8", "S": _S, "D": 128, "B": 1},
            tier="quick" if _S == 8192 else "full",
            peers=("torch", "unfused", *(("flex",) if _S == 8192 else ()), "zentorch", *PACKED),
            build=_drawn("full", H=32, Hk=8, T=1, S=_S, D=128),
        )
    for _work in ("pages of 1", "pages of 3", "pages of 16", "pages of 64", "int8"):
        add(
            "stored",
            {"dtype": _dtype, "work": f"decode, {_work}", "S": 65536, "D": 128, "B": 1},
            build=_drawn("full", H=32, Hk=8, T=1, S=65536, D=128),
        )
    add(
        "latent",
        {"dtype": _dtype, "work": "decode, latent", "S": 8192, "D": 576, "B": 1},
        build=_drawn("full", H=128, Hk=1, T=1, S=8192, D=576),
    )
    for _work in ("causal", "full"):
        add(
            "backward",
            {"dtype": _dtype, "work": f"{_work}, forward + backward", "T": 2048, "D": 64, "B": 1},
            tier="quick" if _work == "causal" else "full",
            peers=IN_TORCH,
            build=_drawn(_work, T=2048),
        )
for _work, _mask in (("no mask", None), ("Causal", hw.Causal()), ("Window", hw.Window(3, 0))):
    add(
        "overhead",
        {"dtype": "f32", "work": f"overhead, {_work}", "T": 4, "D": 16, "B": 1},
        tier="quick",
        peers=("torch",),
        build=lambda draw, mask=_mask: draw.call(
            fused=True, B=1, H=2, T=4, S=4, D=16, **({} if mask is None else {"mask": mask})
        ),
    )

# --- observers ---------------------------------------------------------------------------------------------------


def every_observer(call: Call) -> dict[str, Any]:
    """One of each kind, sized as somebody would ask a long text."""
    draw = Draw(call.q.dtype, seed=1)
    (_, H, T, _), (S, E) = call.q.shape, call.v.shape[-2:]
    labels = draw.ints(997, S)
    segments = torch.arange(S) * 16 // S
    return {
        "LogSumExp": hw.LogSumExp(),
        "MaxLogit": hw.MaxLogit(),
        "Entropy": hw.Entropy(),
        "Received": hw.Received(),
        "Offsets": hw.Offsets(limit=64),
        "TopKeys": hw.TopKeys(8),
        "MassOn": hw.MassOn(draw.ints(S, T, 4, low=-1)),
        "MassWhere": hw.MassWhere(labels[:T], labels),
        "Segments": hw.Segments(segments[:T], segments),
        "Map": hw.Map(64, 64),
        "Crop": hw.Crop(slice(T // 2, T // 2 + 64), slice(0, 64)),
        "Contribution": hw.Contribution(draw.normal(H * E, H * E)),
    }


NAMES = "LogSumExp MaxLogit Entropy Received Offsets TopKeys MassOn MassWhere Segments Map Crop Contribution".split()
GROUPS = {
    "LogSumExp + MaxLogit + Entropy": NAMES[:3],
    "Received + Offsets + Map": ["Received", "Offsets", "Map"],
    "all observers": NAMES,
    **{name: [name] for name in NAMES},
}


def _asks(names: Sequence[str]) -> Ask:
    def ask(call: Call) -> Sequence[Any]:
        every = every_observer(call)
        return [every[name] for name in names]

    return ask


for _group, _names in GROUPS.items():
    for _work in ("full", "causal"):
        _several = len(_names) > 1
        if _several or _work == "full":
            add(
                "observed",
                {"dtype": "f32", "work": f"{_work}, {_group}", "T": 2048, "D": 64, "B": 1},
                tier="quick" if _several and _work == "full" else "full",
                build=_drawn(_work, T=2048),
                ask=_asks(_names),
            )
add(
    "memory",
    {"dtype": "f32", "work": "memory, all observers", "D": 64, "B": 1},
    ask=_asks([name for name in NAMES if name != "Crop"]),
)

# --- whole models ------------------------------------------------------------------------------------------------

for _dtype in ("f32", "bf16"):
    add("smollm2_decode", {"dtype": _dtype, "work": "SmolLM2 decode", "S": 8192})
    add("minilm", {"dtype": _dtype, "work": "MiniLM", "T": 128, "B": 32}, tier="quick" if _dtype == "f32" else "grid")
add("smollm2_prefill", {"dtype": "f32", "work": "SmolLM2 prefill", "T": 8192})
add("smollm2_prefill", {"dtype": "f32", "work": "SmolLM2 prefill", "T": 2048}, tier="quick")
