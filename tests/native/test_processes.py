"""The kernels in processes: forked ones, workers of a data loader, beside torch's threads, at the end of memory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

kernels = pytest.importorskip(
    "headwise._native", reason="no native kernels here: there was no compiler; run: make native"
)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and forks, as Linux does")


def run(code: str, *, threads: int = 2) -> str:
    """What a program prints that has used the kernels on several threads; its warnings are errors."""
    before = f"""
        import torch, headwise as hw
        torch.set_num_threads({threads})
        torch.manual_seed(0)
        q, k, v = torch.randn(2, 4, 200, 16), torch.randn(2, 2, 300, 16), torch.randn(2, 2, 300, 16)
        def attend():
            return hw.attention(q, k, v, mask=hw.Causal(), backend="native")
        want = attend()
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(before) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@on_linux
def test_a_fork_after_use() -> None:
    """A child has none of its parent's threads: it must not wait for them."""
    said = run(
        """
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: "this process is multi-threaded"
        children = []
        for turn in range(3):
            child = os.fork()
            if child == 0:
                x = q.clone().requires_grad_()
                good = torch.equal(attend(), want)
                hw.attention(x, k, v, backend="native").sum().backward()
                seen = hw.attend(q, k, v, backend="native", observe=[hw.Received(), hw.TopKeys(3)]).seen
                os._exit(0 if good and bool(torch.isfinite(x.grad).all()) and len(seen) == 2 else 7)
            children.append(child)
        print([os.waitpid(child, 0)[1] for child in children], torch.equal(attend(), want))
        """
    )
    assert said == "[0, 0, 0] True\n"


@on_linux
def test_workers_of_a_data_loader() -> None:
    said = run(
        """
        import warnings
        from torch.utils.data import DataLoader, Dataset
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: "this process is multi-threaded"

        class Rows(Dataset):
            def __len__(self):
                return 6
            def __getitem__(self, n):
                return attend()[0, 0, n]

        rows = torch.cat(list(DataLoader(Rows(), num_workers=2, multiprocessing_context="fork")))
        print(torch.equal(rows, want[0, 0, :6]), torch.equal(attend(), want))
        """
    )
    assert said == "True True\n"


@on_linux
@pytest.mark.skipif(
    kernels.thread_runtime() != "libgomp", reason="built without OpenMP: the threads are headwise's own"
)
def test_one_pool_of_threads_beside_torchs() -> None:
    """Two OpenMP runtimes would fight over the cores, each with threads that spin."""
    said = run(
        """
        from pathlib import Path
        torch.randn(300, 300) @ torch.randn(300, 300)
        maps = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
        print(*(path for path in maps if any(name in path for name in ("libgomp", "libomp", "libiomp"))))
        """
    )
    runtimes = [Path(line) for line in said.split()]
    assert len(runtimes) == 1, said
    assert "libgomp" in runtimes[0].name


@on_linux
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_nothing_is_read_behind_the_last_element(dtype: str) -> None:
    """Every buffer ends where memory ends; a read behind it ends the process."""
    said = run(
        f"""
        import ctypes, mmap
        libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
        dtype = torch.{dtype}

        def at_the_end(x):
            size = x.numel() * x.element_size()
            pages = -(-size // page)
            room = mmap.mmap(-1, (pages + 1) * page)
            address = ctypes.addressof(ctypes.c_char.from_buffer(room))
            assert libc.mprotect(ctypes.c_void_p(address + pages * page), page, 0) == 0
            there = torch.frombuffer(room, dtype=x.dtype, count=x.numel(), offset=pages * page - size).view(x.shape)
            assert there.data_ptr() + size == address + pages * page
            return there.copy_(x)

        sizes = [(1, 1, 1, 1), (1, 37, 8, 8), (3, 131, 9, 7), (17, 129, 17, 33), (70, 300, 5, 16), (1, 2100, 24, 3)]
        for T, S, D, E in sizes:
            shapes = [(1, 2, T, D), (1, 1, S, D), (1, 1, S, E)]
            q, k, v = (at_the_end(torch.randn(shape, dtype=dtype)) for shape in shapes)
            keep = at_the_end(torch.rand(T, S) < 0.7)
            bias = at_the_end(torch.randn(2, T, S, dtype=dtype))
            column = at_the_end(torch.randn(S, dtype=dtype))
            slopes, table, sinks = (at_the_end(torch.randn(*n)) for n in ((2,), (2, 3), (2,)))
            for options in [
                {{}},
                {{"mask": hw.Causal()}},
                {{"mask": hw.Dense(keep)}},
                {{"mask": hw.Padding(keep[:1])}},
                {{"mask": hw.Blocks(keep[: -(-T // 3), : -(-S // 3)], 3)}},
                {{"scores": (hw.Bias(bias), hw.SoftCap(3.0)), "sinks": sinks}},
                {{"scores": (hw.Bias(column), hw.Alibi(slopes), hw.RelativeBias(table, 1))}},
            ]:
                x = q.requires_grad_()
                out = hw.attention(x, k, v, **options, backend="native")
                out.float().square().sum().backward()
                hw.attend(q.detach(), k, v, **options, backend="native", observe=[hw.Received(), hw.Entropy()])
        print("read to the end")
        """
    )
    assert said == "read to the end\n"


def test_without_the_module_headwise_is_whole_and_says_how_to_get_it() -> None:
    code = """
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name == "headwise._native":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Absent())
        import torch, headwise as hw
        x = torch.randn(1, 2, 5, 4)
        said = hw.explain(x, x, x, mask=hw.Causal(), observe=[hw.Entropy()])
        print(said.chosen)
        print(said.reasons["native"])
        y = x.clone().requires_grad_()
        hw.attention(y, x, x, mask=hw.Causal() & hw.Window(2)).sum().backward()
        hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Entropy(), hw.Received()])
        hw.attention(x, x, x)
        try:
            hw.attention(x, x, x, backend="native")
        except hw.UnavailableError as error:
            print(error)
    """
    # Warnings are errors here, and that there are no kernels is a warning to whoever did not ask for silence.
    silent = {**os.environ, "HEADWISE_WITHOUT_NATIVE": "1"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=silent)
    assert done.returncode == 0, done.stderr
    chosen, reason, error = done.stdout.splitlines()
    assert chosen == "sdpa"
    for said in (reason, error):
        assert "No module named 'headwise._native'" in said
        assert "HEADWISE_REQUIRE_NATIVE=1 pip install" in said
    assert error.startswith("attention: backend 'native' is not available")
