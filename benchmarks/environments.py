"""A Python for each group of peers: torch and headwise of this one, and the peers' packages on top.

Made on request under build/peers, which git ignores. zentorch registers kernels with torch when it is loaded, and the
two runtimes bring thread pools, so neither shares a process with what is compared to torch itself.
"""

from __future__ import annotations

import os
import platform
import site
import subprocess
import sys
from pathlib import Path

import torch

__all__ = ["PACKAGES", "REPO", "Missing", "python_of", "variables"]

REPO = Path(__file__).resolve().parents[1]
HOME = REPO / "build" / "peers"

#: zentorch's version follows torch's.
ZENTORCH = {"2.13.0": "zentorch==2.13.0.2"}
PACKAGES: dict[str, list[str]] = {
    "here": [],
    "runtimes": ["onnxruntime==1.32.0", "onnx==1.23.2", "openvino==2026.4.1"],
    "zentorch": [ZENTORCH.get(torch.__version__.partition("+")[0], "")],
}


class Missing(Exception):
    """A sentence that says why an environment cannot be had."""


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made first where it is not there.

    Raises:
        Missing: its packages are not for this machine, or cannot be installed.
    """
    if name == "here":
        return Path(sys.executable)
    _refuse(name)
    folder = HOME / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join([sys.prefix, *PACKAGES[name]])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"benchmarks: making {folder.relative_to(REPO)} with {', '.join(PACKAGES[name])}", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        # This environment's packages, its .pth files included, behind those of the new one.
        inside = next((folder / "lib").glob("python*")) / "site-packages"
        (inside / "behind.pth").write_text(f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        subprocess.run([*pip, *PACKAGES[name]], check=True)
    except subprocess.CalledProcessError as failed:
        raise Missing(f"{', '.join(PACKAGES[name])} could not be installed: {failed}") from failed
    stamp.write_text(wanted)
    return python


def _refuse(name: str) -> None:
    if name == "zentorch" and platform.machine() not in ("x86_64", "AMD64"):
        raise Missing("zentorch is for x86 only")
    if not all(PACKAGES[name]):
        raise Missing(f"there is no zentorch for torch {torch.__version__}")


def variables(isa: str | None) -> dict[str, str]:
    """The environment variables of a worker."""
    found = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_CACHE_DIR": str(HOME / "inductor"),
    }
    found["PYTHONPATH"] = os.pathsep.join([str(REPO), *filter(None, [os.environ.get("PYTHONPATH")])])
    return found | ({} if isa is None else {"HEADWISE_ISA": isa})
