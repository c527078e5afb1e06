"""Every model type that transformers knows, in use, against transformers itself: padding on both sides, forward,
gradients, generation. Some ten minutes; ``make sweep``, or ``make sweep ARGS="siglip llama"`` for some types.

One line a type: ok, differs (which tensor, by which share of its largest value), refused (the sentence), not built (the
reason), or no attention through transformers' interface. The exit status is 1 if any differs.
"""

from __future__ import annotations

import argparse
import collections
import gc
import re
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from agreement import SAME, Difference, compare, implementation, references, results
from padded_inputs import SIDES, candidates, prompt
from tiny_models import NoModelError, classes_of, tiny_config, tiny_model
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from headwise.errors import UnsupportedError
from headwise.models.sites import find_sites

LARGEST = 60_000_000  # parameters; more is a config that the rules did not shrink


@dataclass
class Verdict:
    """What came of one model type."""

    state: str = "ok"
    notes: list[str] = field(default_factory=list)
    padded: bool = False
    generated: bool = False
    ran: bool = False
    coverage: float = 1.0

    def note(self, where: str, difference: Difference, allowed: float) -> None:
        """Takes a difference down where it is more than allowed; NaN is."""
        if not difference.share <= allowed:
            self.state = "differs"
            self.notes.append(f"{where}: {difference.name} {difference.share:.2g}")


def build(model_type: str, generating: bool) -> nn.Module:
    """A tiny model of a type, with attention through transformers' interface."""
    bare, head = classes_of(model_type)
    cls = (head if generating else bare) or bare or head
    if cls is None:
        raise NoModelError("no class of model")
    config = tiny_config(CONFIG_MAPPING[model_type])
    with torch.device("meta"):
        shape = cls(config)
    if not find_sites(shape):
        raise NoModelError("no attention through transformers' interface")
    n = sum(p.numel() for p in shape.parameters())
    if n > LARGEST:
        raise NoModelError(f"{n:,} parameters")
    return tiny_model(cls, config)


def batches(model: nn.Module) -> tuple[dict[str, dict[str, Any]], bool]:
    """Inputs that the model takes on its eager path, by the side of their padding, and whether padding changes it."""
    reasons = []
    for n, batch in enumerate(candidates(model, "right")):
        try:
            padded = results(model, batch, None)
        except Exception as error:  # noqa: BLE001 - a batch that a model does not take is refused in any way
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        if not padded:
            reasons.append("no floating output")
            continue
        by_side = {side: list(candidates(model, side))[n] for side in (*SIDES, "none")}
        plain = results(model, {**batch, **_masks(by_side["none"])}, None)
        moved = compare(plain, references(padded, padded)).share
        if not moved > SAME:
            return {"none": by_side["none"]}, False
        del by_side["none"]
        return by_side, True
    raise NoModelError("no input fits: " + " | ".join(dict.fromkeys(reasons[:2] + reasons[-1:])))


def _masks(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if "mask" in name}


def check(model: nn.Module, batch: dict[str, Any]) -> tuple[list[Difference], float]:
    """The worst difference of outputs and of gradients, and on what share of places transformers agrees with itself."""
    other = second(model)
    with implementation(model, "eager"):
        eager = results(model, batch, None)
    with implementation(model, other):
        fused = results(model, batch, None)
    with implementation(model, "headwise"):
        ours = results(model, batch, None)
    outputs = references(fused, eager) if other == "sdpa" else references(eager, fused)
    worst = compare(ours, outputs)
    weigh = {}
    generator = torch.Generator().manual_seed(7)
    for name, places in outputs.agreed.items():
        weights = torch.rand(places.shape, generator=generator) + 0.5
        weigh[name] = (weights * places).to(outputs.values[name].dtype)
    gradients = []
    for name in (other, "eager", "headwise"):
        with implementation(model, name):
            gradients.append(results(model, batch, weigh))
    trained = references(*(gradients[:2] if other == "sdpa" else gradients[1::-1]))
    slope = compare(gradients[2], trained)
    return [worst, slope], min(outputs.coverage, trained.coverage)


def second(model: Any) -> str:
    """What eager is compared with: sdpa where the model has it, else eager itself with other empty rows."""
    try:
        with implementation(model, "sdpa"):
            return "sdpa" if model.config._attn_implementation == "sdpa" else "eager, empty rows see key 0"
    except (ValueError, ImportError):
        return "eager, empty rows see key 0"


def generate(model: Any, batch: dict[str, Any], name: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Four greedy tokens, and the logits of each step."""
    torch.manual_seed(0)
    with implementation(model, name), torch.no_grad():
        out = model.generate(
            **prompt(model, batch),
            do_sample=False,
            num_beams=1,
            max_new_tokens=4,
            min_new_tokens=4,
            output_logits=True,
            return_dict_in_generate=True,
        )
    return out.sequences, {f"step {n}": logits for n, logits in enumerate(out.logits)}


def check_generation(model: Any, batch: dict[str, Any]) -> Difference | str:
    """The worst difference of step logits, or why there is nothing to compare with."""
    try:
        ids, eager = generate(model, batch, "eager")
        other_ids, fused = generate(model, batch, second(model))
    except Exception as error:  # noqa: BLE001 - whatever transformers cannot do by itself is not asked of headwise
        return f"transformers cannot generate: {type(error).__name__}: {_line(error)}"
    if not torch.equal(ids, other_ids):
        return "transformers' own implementations generate different tokens"
    our_ids, ours = generate(model, batch, "headwise")
    worst = compare(ours, references(fused, eager))
    if not torch.equal(ids, our_ids):
        return Difference("tokens", float("inf"))
    return worst


#: Types that run under autocast too. No mixture of experts: what its router chooses turns on the last bit.
AUTOCAST = frozenset({"bart", "bert", "gemma2", "gpt2", "llama", "mistral", "siglip", "t5", "wav2vec2", "whisper"})


def check_autocast(model: nn.Module, batch: dict[str, Any]) -> Difference:
    """The worst error of outputs under autocast, as a multiple of what bfloat16 allows."""
    other = second(model)
    exact, half = {}, {}
    for name in (other, "eager", "headwise"):
        with implementation(model, name):
            exact[name] = results(model, batch, None)
            with torch.autocast("cpu", torch.bfloat16):
                half[name] = results(model, batch, None)
    return _beyond_bfloat16(exact, half, other)


def check_autocast_generation(model: nn.Module, batch: dict[str, Any]) -> Difference:
    """The same for the logits of the first step that is generated; later ones depend on which token that one gave."""
    other = second(model)
    exact = {name: {"step 0": generate(model, batch, name)[1]["step 0"]} for name in (other, "eager", "headwise")}
    with torch.autocast("cpu", torch.bfloat16):
        half = {name: {"step 0": generate(model, batch, name)[1]["step 0"]} for name in exact}
    return _beyond_bfloat16(exact, half, other)


def _beyond_bfloat16(exact: dict[str, dict[str, Tensor]], half: dict[str, dict[str, Tensor]], other: str) -> Difference:
    """An error against float32, where transformers agrees with itself there, and what bfloat16 allows.

    That is twice the larger error of transformers' own implementations, and a unit of rounding of the largest value.
    """
    worst = Difference("", 0.0)
    for key, places in references(exact[other], exact["eager"]).agreed.items():
        if bool(places.any()):
            value = exact[other][key][places]
            error = {name: float((of[key][places].float() - value).abs().max()) for name, of in half.items()}
            share = error["headwise"] / (2 * max(error[other], error["eager"]) + 2**-8 * float(value.abs().max()))
            worst = worst if share <= worst.share else Difference(f"autocast {key}", share)
    return worst


def judge(model_type: str, dtype: torch.dtype = torch.float32) -> Verdict:
    """Everything about one model type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes of transformers and torch about configs as small as these
        return _judge(model_type, dtype)


def _judge(model_type: str, dtype: torch.dtype) -> Verdict:
    verdict = Verdict()
    try:
        bare, head = classes_of(model_type)
        if bare is None and head is None:
            raise NoModelError("transformers has no model of this config alone")
        for generating in [False] * (bare is not None) + [True] * (head is not None and head is not bare):
            _judge_model(verdict, build(model_type, generating).to(dtype), generating, model_type in AUTOCAST)
    except UnsupportedError as refusal:
        verdict.state = "refused"
        verdict.notes.append(_line(refusal))
    except NoModelError as reason:
        verdict.notes.append(_line(reason))
        if verdict.state == "ok" and not verdict.ran:
            verdict.state = "outside" if "no attention" in str(reason) else "not built"
    return verdict


def _judge_model(verdict: Verdict, model: Any, generating: bool, autocast: bool) -> None:
    by_side, padded = batches(model)
    verdict.padded |= padded
    for side, batch in by_side.items():
        where = f"{type(model).__name__} {side}"
        differences, coverage = check(model, batch)
        verdict.ran = True
        for difference in differences:
            verdict.note(where, difference, SAME)
        if autocast and _dtype(model) == torch.float32:
            verdict.note(where, check_autocast(model, batch), 1.0)
        verdict.coverage = min(verdict.coverage, coverage)
        if coverage < 0.5:
            verdict.notes.append(f"{where}: transformers agrees with itself on {coverage:.0%}")
    if generating and hasattr(model, "generate") and model.can_generate():
        batch = by_side["left" if padded else "none"]
        difference = check_generation(model, batch)
        if isinstance(difference, str):
            verdict.notes.append(f"{type(model).__name__}: {difference}")
        else:
            verdict.generated = True
            verdict.note(f"{type(model).__name__} generate", difference, SAME)
            if autocast and _dtype(model) == torch.float32:
                verdict.note(f"{type(model).__name__} generate", check_autocast_generation(model, batch), 1.0)


def _dtype(model: nn.Module) -> torch.dtype:
    return next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())


def _line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error))[:400]


def main(arguments: list[str]) -> int:
    """Runs the sweep; 1 if any type differs."""
    parser = argparse.ArgumentParser(prog="make sweep", description=__doc__)
    parser.add_argument("types", nargs="*", help="model types; none = all of transformers' config mapping")
    parser.add_argument("--from", dest="start", default="", help="begin at this type")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--traceback", action="store_true", help="show where a type failed")
    chosen = parser.parse_args(arguments)
    transformers.logging.set_verbosity_error()
    types = chosen.types or list(CONFIG_MAPPING.keys())
    types = types[types.index(chosen.start) :] if chosen.start else types
    tally: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    for n, model_type in enumerate(types):
        if time.monotonic() - begun > chosen.seconds:
            print(f"stopped before {model_type}; {len(types) - n} types are left")
            break
        verdict = one(model_type, chosen.traceback)
        how = " ".join(word for word, yes in (("padded", verdict.padded), ("generate", verdict.generated)) if yes)
        print(f"{model_type:32s} {verdict.state:10s} {how:16s} {'; '.join(verdict.notes)}", flush=True)
        tally[verdict.state] += 1
        if verdict.state in ("ok", "differs"):
            tally["ran"] += 1
            tally["with padding"] += verdict.padded
            tally["with generation"] += verdict.generated
        gc.collect()
    print(", ".join(f"{what}: {count}" for what, count in tally.most_common()), f"{time.monotonic() - begun:.0f} s")
    return 1 if tally["differs"] else 0


def one(model_type: str, show: bool) -> Verdict:
    """The verdict on one type; a difference in float32 that float64 does not have is rounding, and said to be."""
    try:
        verdict = judge(model_type)
        if verdict.state == "differs":
            wide = judge(model_type, torch.float64)
            if wide.state == "ok" and wide.padded == verdict.padded and wide.coverage > 0.9 * verdict.coverage:
                return Verdict(
                    "ok", ["in float64; in float32 " + "; ".join(verdict.notes)], verdict.padded, verdict.generated
                )
            if wide.state != "differs":
                verdict.notes.append(
                    f"in float64 {wide.state}, compared at {wide.coverage:.0%}; " + "; ".join(wide.notes)
                )
    except Exception as error:  # noqa: BLE001 - one type must not end the sweep
        if show:
            traceback.print_exc()
        return Verdict("not built", [f"{type(error).__name__}: {_line(error)}"])
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
