"""Runs a program on an emulated processor that has AVX-512 and its bf16 dot product.

    python native/check/bochs/emulate.py build/avx512/headwise_check 100

The processor is Bochs's (PyPI: bochscpu-python); the little of Linux that a program of one thread and no files asks for
is in this file. The program must be linked with -static -no-pie. Page tables map each address to itself, so memory is
one stretch of ours, and a page may be read or written only where the program was given it: a kernel that reads behind
its buffer is caught here as on a real machine.
"""  # noqa: INP001

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PAGE = 4096
SIZE = 512 << 20  # of the memory
TABLES = 0x1000  # three tables of one page, then one page of entries for each 2 MiB
STUB = 0x3FF000  # the page that system calls go to
STACK = 8 << 20
READ, WRITE = 1, 2
ENOMEM, ENOSYS = 12, 38


def load_bochs() -> Any:
    """The emulator's module, behind the shim that it needs."""
    source = Path(__file__).with_name("shim.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "shim.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True)
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_LAZY)
    import bochscpu
    import bochscpu.memory

    return bochscpu


def pages(count: int) -> int:
    """Bytes in whole pages."""
    return -(-count // PAGE) * PAGE


class Memory:
    """Pages at the addresses that the program sees, and who may do what with each."""

    def __init__(self, bochs: Any) -> None:
        self.ram = mmap.mmap(-1, SIZE)
        host = ctypes.addressof(ctypes.c_char.from_buffer(self.ram))
        for address in range(0, SIZE, PAGE):
            bochs.memory.page_insert(address, host + address)
        self.entries = TABLES + 3 * PAGE
        assert self.entries + (SIZE >> 21) * PAGE <= STUB
        self.store(TABLES, (TABLES + PAGE) | 3)
        self.store(TABLES + PAGE, (TABLES + 2 * PAGE) | 3)
        self.store(TABLES + 2 * PAGE, *((self.entries + n * PAGE) | 3 for n in range(SIZE >> 21)))
        self.taken = bytearray(SIZE // PAGE)
        self.take(0, STUB + PAGE)
        self.protect(STUB, PAGE, READ)

    def store(self, address: int, *numbers: int) -> None:
        struct.pack_into(f"<{len(numbers)}Q", self.ram, address, *numbers)

    def fetch(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{count}Q", self.ram, address)

    def protect(self, address: int, length: int, rights: int) -> None:
        for page in range(address & -PAGE, pages(address + length), PAGE):
            present = 3 if rights & WRITE else 1 if rights & READ else 0
            self.store(self.entries + page // PAGE * 8, (page | present) if present else 0)

    def take(self, address: int, length: int, taken: bool = True) -> None:
        first, count = address // PAGE, pages(address + length) // PAGE - address // PAGE
        self.taken[first : first + count] = bytes([taken]) * count

    def find(self, length: int) -> int | None:
        """Pages that nobody has, zeroed."""
        page = self.taken.find(bytes(pages(length) // PAGE))
        if page < 0:
            return None
        self.take(page * PAGE, length)
        self.ram[page * PAGE : page * PAGE + pages(length)] = bytes(pages(length))
        return page * PAGE


class Program:
    """A process: its image in memory, its first stack, and what it asks of the kernel."""

    def __init__(self, memory: Memory, arguments: list[str]) -> None:
        self.memory = memory
        self.exit_status: int | None = None
        self.fault: str | None = None
        self.on_fault = 0
        self.base = 0  # of thread-local memory
        image = Path(arguments[0]).read_bytes()
        self.entry, headers = struct.unpack_from("<QQ", image, 24)
        size, count = struct.unpack_from("<HH", image, 54)
        end = headers_at = 0
        for n in range(count):
            kind, _, offset, address, _, in_file, length, _ = struct.unpack_from("<IIQQQQQQ", image, headers + n * size)
            if kind != 1:  # PT_LOAD
                continue
            assert address > STUB, "link with -static -no-pie"
            memory.ram[address : address + in_file] = image[offset : offset + in_file]
            memory.take(address, length)
            memory.protect(address, length, READ | WRITE)
            end = max(end, pages(address + length))
            if offset == 0:
                headers_at = address + headers
        self.break_from = self.break_at = end
        self.break_limit = end + (32 << 20)
        memory.take(end, self.break_limit - end)
        self.stack = self.first_stack(arguments, (headers_at, size, count))

    def first_stack(self, arguments: list[str], headers: tuple[int, int, int]) -> int:
        """Arguments, environment and auxiliary vector, as a process finds them; returns the stack pointer."""
        top = SIZE - PAGE
        self.memory.take(top - STACK, STACK)
        self.memory.protect(top - STACK, STACK, READ | WRITE)

        def put(text: bytes) -> int:
            nonlocal top
            top -= len(text) + 1
            self.memory.ram[top : top + len(text)] = text
            return top

        words = [put(word.encode()) for word in arguments]
        environment = [put(f"{key}={x}".encode()) for key, x in os.environ.items() if key.startswith("HEADWISE_")]
        random = put(bytes(range(1, 17)))
        auxiliary = (3, headers[0], 4, headers[1], 5, headers[2], 6, PAGE, 9, self.entry, 23, 0, 25, random, 0, 0)
        vector = [len(words), *words, 0, *environment, 0, *auxiliary]
        top = (top - 8 * len(vector)) & -64
        self.memory.store(top, *vector)
        return top

    def answer(self, number: int, a: int, b: int, c: int) -> int | None:
        """A system call with its first three arguments; None ends the program."""
        memory = self.memory
        match number:
            case 1:  # write
                return os.write(a, memory.ram[b : b + c])
            case 20:  # writev
                pairs = [memory.fetch(b + 16 * n, 2) for n in range(c)]
                return sum(os.write(a, memory.ram[at : at + length]) for at, length in pairs)
            case 9:  # mmap, of nothing but memory
                found = memory.find(b)
                if found is None:
                    return -ENOMEM
                memory.protect(found, b, c)
                return found
            case 10:  # mprotect
                memory.protect(a, b, c)
            case 11:  # munmap
                memory.protect(a, b, 0)
                memory.take(a, b, False)
            case 12:  # brk
                if self.break_from <= a <= self.break_limit:
                    self.break_at = a
                    memory.protect(self.break_from, a - self.break_from, READ | WRITE)
                return self.break_at
            case 13:  # rt_sigaction
                if a == 11:
                    self.on_fault = memory.fetch(b, 1)[0]
            case 158:  # arch_prctl
                self.base = b
            case 218:  # set_tid_address
                return 1
            case 318:  # getrandom
                return b
            case 60 | 231:  # exit, exit_group
                self.exit_status = a & 255
                return None
            case _:
                return -ENOSYS
        return 0


def segment(bochs: Any, attributes: int, base: int = 0) -> Any:
    """A segment of the whole address space."""
    made = bochs.Segment()
    made.present, made.selector, made.base, made.limit, made.attr = True, 0x18, base, 0xFFFFFFFF, attributes
    return made


def run(bochs: Any, program: Program) -> int:
    """From the entry point to the exit; the status, as a shell would give it."""
    memory = program.memory
    # Where `syscall` goes: wbinvd, which has a hook; cr3 again, since pages may have changed; jmp rcx, back.
    memory.ram[STUB : STUB + 12] = bytes.fromhex("0f09 41 0f20db 41 0f22db ffe1")
    session = bochs.Session()

    def syscall(_session: Any, _cpu: int, _what: int) -> None:
        cpu = session.cpu
        base = program.base
        answer = program.answer(cpu.rax, cpu.rdi, cpu.rsi, cpu.rdx)
        if answer is None:
            session.stop()
            return
        cpu.rax = answer & (2**64 - 1)
        if program.base != base:
            cpu.fs = segment(bochs, 0xC093, program.base)

    def exception(_session: Any, _cpu: int, vector: int, _error: int) -> None:
        program.fault = f"exception {vector} at {session.cpu.rip:#x}, address {session.cpu.cr2:#x}"
        session.stop()

    def missing(address: int) -> None:
        program.fault = f"no memory at {address:#x}"
        session.stop()

    session.missing_page_handler = missing
    hook = bochs.Hook()
    hook.cache_cntrl, hook.exception = syscall, exception
    state = session.cpu.state
    state.cs = segment(bochs, 0xA09B)  # 64-bit code; all in ring 0, where the hook's instruction may run
    for name in ("ds", "es", "ss", "fs", "gs"):
        setattr(state, name, segment(bochs, 0xC093))
    state.cr0 = 0x80010033  # paging, also for ring 0 (WP)
    state.cr3 = TABLES
    state.cr4 = 0x406A0  # PAE, PGE, SSE, XSAVE
    state.efer, state.xcr0 = 0x501, 0xE7  # long mode and syscall; all vector registers
    state.star, state.lstar, state.sfmask, state.rflags = 0x10 << 32, STUB, 0, 2
    state.mxcsr, state.mxcsr_mask, state.fpcw, state.fptw = 0x1F80, 0xFFFF, 0x37F, 0xFFFF
    state.rip, state.rsp = program.entry, program.stack
    session.cpu.set_state(state)
    session.run([hook])
    if program.fault and program.on_fault:
        sys.stderr.write(f"emulate: {program.fault}\n")
        program.fault = None
        state = session.cpu.state
        state.rip, state.rdi, state.rsp = program.on_fault, 11, (state.rsp - 512 & -64) - 8
        session.cpu.set_state(state)
        session.run([hook])
    if program.fault or program.exit_status is None:
        sys.stderr.write(f"emulate: {program.fault or 'the processor has stopped'}\n")
        return 139
    return program.exit_status


def main() -> None:
    """The command line."""
    if len(sys.argv) < 2:
        sys.exit("emulate.py program [arguments]")
    bochs = load_bochs()
    status = run(bochs, Program(Memory(bochs), sys.argv[1:]))
    sys.stdout.flush()
    os._exit(status)  # the module's own clean-up complains of what it kept itself


if __name__ == "__main__":
    main()
