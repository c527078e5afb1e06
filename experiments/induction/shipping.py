"""Writing the two-layer model into the package, where ``hw.load("two-layer")`` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

__all__ = ["WEIGHTS", "ship"]

WEIGHTS = Path(__file__).parents[2] / "src" / "headwise" / "models" / "weights" / "two-layer"


def ship(model: Any, tokenizer: Any, folder: Path) -> None:
    """Saves model and tokenizer as transformers does, the weights in float16 to be read as float32.

    Args:
        model: float32; it is made float16.
        tokenizer: its tokenizer.
        folder: what is in it is overwritten.
    """
    model.to(torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes for its owner alone, and packages keep modes
    config = folder / "config.json"
    told = json.loads(config.read_text())
    config.write_text(json.dumps({**told, "dtype": "float32"}, indent=2, sort_keys=True) + "\n")
