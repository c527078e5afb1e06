"""Loading lends transformers a reader and silences it; two threads put back each other's substitutes, for good."""

from __future__ import annotations

import importlib
import logging
import threading
import warnings
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import transformers
from transformers import modeling_gguf_pytorch_utils

import headwise as hw
from headwise.errors import SpecError

load = importlib.import_module("headwise.models.load")  # the package's name of it is the function


def everything() -> tuple[Any, ...]:
    """What loading changes for its duration."""
    log = transformers.utils.logging
    levels = [logging.getLogger(name).level for name in ("gguf", "gguf.gguf_reader")]
    shared = (gguf.GGUFReader, gguf.get_tensor_name_map, modeling_gguf_pytorch_utils.tqdm, warnings.showwarning)
    return (*shared, log.is_progress_bar_enabled(), log.get_verbosity(), *levels, list(warnings.filters))


def test_two_threads_leave_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "nobody-knows")
    writer.add_tensor("blk.0.weight", np.ones((32, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    before, own = everything(), load._whole
    first, second, told = threading.Event(), threading.Event(), []

    def slow(*args: Any) -> Any:
        """The first to come waits for the second as long as one might, so that without a lock both are inside."""
        if not first.is_set():
            first.set()
            second.wait(0.3)
        else:
            second.set()
        return own(*args)

    monkeypatch.setattr(load, "_whole", slow)

    def run() -> None:
        with pytest.raises(SpecError) as caught:
            hw.load(path)
        told.append(str(caught.value))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 3
    assert all("cannot be read (" in message for message in told)
    assert everything() == before
