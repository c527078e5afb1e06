"""Whether the compiled module is here. Its absence, and nothing else, leaves the native backend out."""

from __future__ import annotations

from headwise.errors import UnavailableError, sentence

__all__ = ["ABSENT"]

#: Why there are no kernels: headwise was installed where there was no compiler. None where they are here.
ABSENT: str | None = None

# Any other failure to import, of the module or of the Python around it, is a fault that somebody has to see.
try:
    import headwise._native  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "headwise._native":
        raise
    ABSENT = str(error)
except ImportError as error:
    raise UnavailableError(
        sentence(
            "headwise",
            f"its compiled module {error.path or 'headwise._native'} does not load ({error})",
            "only where that file is absent does headwise run without its kernels",
            todo="Build it anew (pip install --force-reinstall --no-deps --no-cache-dir . in a checkout of headwise;"
            " make native if it is installed editable), or delete it: everything works without, more slowly.",
        )
    ) from error
