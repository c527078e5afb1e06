"""A layer with an adapter was read as if it had none, transposed; its heads are refused by name."""

from __future__ import annotations

from typing import Any

import peft
import pytest
from zoo import Zoo

import headwise as hw
from headwise.errors import UnsupportedError
from headwise.models.projections import projections


# peft 0.21 asks transformers 5.24 a question by its old name.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_layers_with_adapters_are_refused_until_they_are_merged(family: str) -> None:
    zoo = Zoo()
    names = ["q_proj", "v_proj"] if family == "llama" else ["c_attn"]
    config = peft.LoraConfig(r=2, target_modules=names, fan_in_fan_out=family == "gpt2")
    model: Any = peft.get_peft_model(zoo.model(family), config)
    with pytest.raises(UnsupportedError, match=r"is a peft.*Merge adapters into the weights first"):
        projections(model, 0)
    table = hw.head_table(model, None, [[5, 6, 7, 5, 6, 7]], random_tokens=False)
    assert "contribution" not in table.columns
    assert projections(model.merge_and_unload(), 0).heads == 4
