"""Times headwise beside everything that a user could call instead, and keeps the record.

    python -m benchmarks --quick                     what is promised, about 10 minutes
    python -m benchmarks                             about 40 minutes; --grid is every size
    python -m benchmarks --only window --peers torch,flex
    python -m benchmarks --list

Us and the peers take turns in one process; peers that need an environment of their own get one under build/peers, with
headwise in it. A bench is timed after its answer was right, and again where the probe of multiply-adds beside it fell
below 95 % of the best one of the run: so run it on a machine that does nothing else. A whole profile goes to
docs/benchmarks and the page, docs/benchmarks.md; a part of one (--only, --peers) to build/benchmarks.json, unless --out
or --merge says otherwise.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import render, results
from benchmarks.cases import TIERS, Bench, selected
from benchmarks.environments import PACKAGES, REPO, Missing, python_of, variables
from benchmarks.peers import known

#: Seconds of timing a bench in each environment; preparing and checking come on top.
SECONDS = {"quick": 2.0, "full": 3.0, "grid": 3.0}
Group = tuple[str, str | None]


def groups(benches: Sequence[Bench], peers: Sequence[str]) -> dict[Group, list[str]]:
    """Which benches run in which environment and under which forced ISA.

    A bench runs in every environment where one of its peers lives, and here where it needs none.
    """
    found: dict[Group, list[str]] = {}
    for bench in benches:
        homes = {known()[peer].environment for peer in bench.peers if peer in peers}
        if not bench.peers:
            homes = {"here"}
        for environment in PACKAGES:
            if environment in homes:
                found.setdefault((environment, bench.isa), []).append(bench.name)
    return found


class Run:
    """One run: what its workers say, kept in a record."""

    def __init__(self, profile: str, peers: Sequence[str], seconds: float) -> None:
        self.peers, self.seconds = list(peers), seconds
        self.checked: set[str | None] = set()
        self.ended: int | None = None
        self.record: results.Record = {
            "machine": {},
            "profile": profile,
            "commit": _commit(),
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "conformance": 0,
            "rows": [],
            "discarded": [],
            "wrong": [],
            "failed": [],
        }

    def all(self, todo: dict[Group, list[str]], attempts: int) -> None:
        """Runs every group, then again what was disturbed, and discards what stays so."""
        for attempt in range(attempts):
            for group, names in todo.items():
                self.group(group, names)
            best = results.best_fma(self.record["rows"])
            bad = [row for row in self.record["rows"] if results.disturbed(row, best)]
            if not bad:
                return
            last = attempt == attempts - 1
            print(f"benchmarks: {len(bad)} were disturbed, {'discarded' if last else 'they run again'}", flush=True)
            self.record["rows"] = [row for row in self.record["rows"] if row not in bad]
            if last:
                self.record["discarded"] += [
                    {"name": row["name"], "environment": row["environment"], "fma": row["fma"]["rate"], "best": best}
                    for row in bad
                ]
            todo = {}
            for row in bad:
                todo.setdefault((row["environment"], row["isa"]), []).append(row["name"])

    def group(self, group: Group, names: Sequence[str]) -> None:
        """Runs benches in one environment; where its process dies, the rest go on in a new one."""
        environment, isa = group
        try:
            python = python_of(environment)
        except Missing as why:
            print(f"benchmarks: {environment}: {why}", flush=True)
            self.record["failed"] += [{"name": name, "environment": environment, "why": str(why)} for name in names]
            return
        rest = list(names)
        while rest:
            begun = None
            for message in self._said(python, environment, isa, rest):
                if "begun" in message:
                    begun = message["begun"]
                    rest.remove(begun)
                elif {"row", "wrong", "failed"} & message.keys():
                    self._keep(message, environment)
                    begun = None
                else:
                    self._keep(message, environment)
            if begun is None:
                if rest:
                    raise SystemExit(f"benchmarks: the worker in {environment} ended early; what it printed is above")
                return
            self._keep({"failed": begun, "why": f"its process ended with {self.ended}"}, environment)

    def _said(self, python: Path, environment: str, isa: str | None, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The messages of one worker."""
        given = {
            "benches": list(names),
            "peers": self.peers,
            "seconds": self.seconds,
            "environment": environment,
            "conformance": environment == "here" and isa not in self.checked,
        }
        if environment == "here":
            self.checked.add(isa)
        reading, writing = os.pipe()
        command = [str(python), "-m", "benchmarks.worker", str(writing)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=sys.stderr, pass_fds=[writing], env=variables(isa), cwd=REPO
        ) as worker:
            os.close(writing)
            assert worker.stdin is not None
            try:
                worker.stdin.write(json.dumps(given).encode())
                worker.stdin.close()
                with os.fdopen(reading) as messages:
                    yield from map(json.loads, messages)
            except BaseException:
                worker.kill()  # whoever interrupts a run waits for no bench
                raise
        self.ended = worker.returncode

    def _keep(self, message: dict[str, Any], environment: str) -> None:
        """Puts one message into the record, and what a person should see on the screen."""
        if "machine" in message:
            versions = self.record["machine"].get("versions", {}) | message["machine"]["versions"]
            first = self.record["machine"] or message["machine"]
            self.record["machine"] = first | {"versions": versions}
        elif "conformance" in message:
            self.record["conformance"] += message["conformance"]
            print(f"benchmarks: {message['conformance']} shared cases are right", flush=True)
        elif "row" in message:
            self.record["rows"].append(message["row"])
            print(render.line(message["row"]), flush=True)
        else:
            kind = "wrong" if "wrong" in message else "failed"
            self.record[kind].append({"name": message[kind], "environment": environment, "why": message["why"]})
            print(f"{message[kind]} [{environment}]: {kind.upper()}, not reported: {message['why']}", flush=True)


def _commit() -> str:
    def git(*words: str) -> str:
        run = subprocess.run(["git", "-C", str(REPO), *words], capture_output=True, text=True, check=False)
        return run.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (
        " with changes" if git("status", "--porcelain", "src", "native") else ""
    )


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    profile = parser.add_mutually_exclusive_group()
    for tier in TIERS:
        profile.add_argument(f"--{tier}", dest="profile", action="store_const", const=tier)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="benches whose name holds it")
    parser.add_argument("--peers", help=f"of {', '.join(known())}; comma between them (packed ones come with theirs)")
    parser.add_argument("--environment", choices=PACKAGES, help="only what runs in this one")
    parser.add_argument("--seconds", type=float, help="of timing, a bench and environment")
    parser.add_argument("--attempts", type=int, default=3, help="how often a disturbed bench is run; 1 = once")
    parser.add_argument("--out", type=Path, help="where the record goes")
    parser.add_argument("--merge", action="store_true", help="into the record that is there (default: this machine's)")
    parser.add_argument("--list", action="store_true", help="names the benches, runs nothing")
    found = parser.parse_args()
    found.profile = found.profile or "full"
    return found


def main() -> None:
    """Runs what the command line asks for."""
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("benchmarks: stopped"))  # what was measured is kept then
    benches = selected(given.profile, given.only)
    if given.list:
        print("\n".join(bench.name for bench in benches))
        return
    wanted = given.peers.split(",") if given.peers else list(known())
    peers = [peer for peer in known() if peer.removesuffix(", packed") in wanted]
    if not benches or not peers:
        raise SystemExit("benchmarks: nothing is selected; see --list and --help")
    todo = groups(benches, peers)
    if given.environment:
        todo = {group: names for group, names in todo.items() if group[0] == given.environment}
    part = bool(given.only or given.peers or given.environment)
    run = Run("part" if part else given.profile, peers, given.seconds or SECONDS[given.profile])
    try:
        run.all(todo, given.attempts)
    finally:
        if run.record["rows"]:
            _record(run.record, given.out, part=part, merge=given.merge)
    if run.record["wrong"]:
        raise SystemExit(f"benchmarks: {len(run.record['wrong'])} answers were wrong")


def _record(record: results.Record, out: Path | None, *, part: bool, merge: bool) -> None:
    """Writes the record; where it belongs to docs/, the page too."""
    whole = results.file_of(record["machine"])
    path = out or (REPO / "build" / "benchmarks.json" if part and not merge else whole)
    if merge and path.exists():
        record = results.merged(results.load(path), record)
    results.save(record, path)
    print(f"benchmarks: {path}")
    print("\n".join(render.promises(record, only_measured=True)))
    if path.parent == results.FOLDER:
        print(f"benchmarks: {render.write()}")


if __name__ == "__main__":
    main()
