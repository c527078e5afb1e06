"""What every test run needs before its first import."""

from __future__ import annotations

import os

# The real models come out of installed packages; nothing may ask the network for them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# The package whole and first: pytest would otherwise import a module that is given by its path a second time, and a
# ShapeError of the one copy is not caught by the other's.
import headwise  # noqa: F401
