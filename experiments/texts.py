"""English documents of Debian packages as plain text, for the experiments that need text to train on or to read.

    python -m experiments.texts            downloads what is missing and says what there is

Packages come from the machine's own apt sources into a folder outside of the repository; nothing is installed. Which
documents there are follows from the packages' versions, so `Corpus.versions` and `Corpus.digest` belong into results.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["CACHE", "Corpus", "Document", "corpus", "plain"]

CACHE = Path.home() / ".cache" / "headwise" / "debian"

#: Package -> which of its files are English documents, by their path below usr/share; some names hold the version that
#: Debian 12 has.
SOURCES = {
    "apache2-doc": r"manual/en/.*\.html$",
    "aptitude-doc-en": r"html/en/.*\.html$",
    "bash-doc": r"bash/.*\.html$",
    "cmake-doc": r"html/(manual|guide|release|module)/.*\.html$",
    "debian-faq": r"FAQ/.*\.en\.html$",
    "debian-handbook": r"html/en-US/.*\.html$",
    "debian-policy": r"debian-policy/.*policy.*\.html/.*\.html$",
    "debian-reference-en": r"debian-reference/.*\.en\.html$",
    "debmake-doc": r".*\.en\.html$",
    "developers-reference": r"developers-reference/.*\.html$",
    "exim4-doc-html": r"spec_html/.*\.html$",
    "git-doc": r"git-doc/.*\.html$",
    "harden-doc": r"html/en-US/.*\.html$",
    "installation-guide-amd64": r"installation-guide-amd64/en/.*\.html$",
    "linux-doc-6.1": r"html/(admin-guide|block|dev-tools|doc-guide|fault-injection|filesystems|kbuild|kernel-hacking"
    r"|livepatch|locking|maintainer|mm|power|process|RCU|scheduler|security|timers|trace|virt|x86)/.*\.html$",
    "maint-guide": r"html/.*\.en\.html$",
    "perl-doc": r"pod/.*\.pod$",
    "postgresql-doc-15": r"html/(?!features|infoschema|release).*\.html$",
    "python-django-doc": r"html/(?!_modules|_sources|genindex).*\.html$",
    "python3.11-doc": r"html/(?!_sources|genindex|_static).*\.html$",
    "r-doc-html": r"manual/R-.*\.html$",
    "sqlite3-doc": r"sqlite3/(?!c3ref|releaselog|syntax|session|keyword_index|doclist|toc).*\.html$",
}
#: A document shorter than this is a page of links.
SHORTEST = 1500
#: A paragraph of at least this many characters that came before, in any document, is left out: licences, menus,
#: and whole texts that one package holds twice would otherwise be in both parts of the split.
REPEATED = 80


@dataclass(frozen=True)
class Document:
    """One text.

    Attributes:
        name: package/path below usr/share.
        text: plain text.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """All documents, split by document.

    Attributes:
        train: to train on, in an order that the seed decides.
        held_out: documents with at least the asked share of all characters, never trained on.
        versions: Debian version of each package.
        digest: SHA-256 of all names and texts in order of name.
    """

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]
    versions: dict[str, str]
    digest: str

    def described(self) -> dict[str, object]:
        """What a result should say about its text."""
        sizes = [sum(len(one.text.encode()) for one in part) for part in (self.train, self.held_out)]
        return {
            "documents": len(self.train) + len(self.held_out),
            "held_out_documents": len(self.held_out),
            "megabytes": round(sum(sizes) / 1e6, 2),
            "held_out_share_of_bytes": round(sizes[1] / sum(sizes), 4),
            "sha256": self.digest,
            "packages": self.versions,
        }


def corpus(cache: Path = CACHE, *, held_out: float = 0.05, seed: int = 0) -> Corpus:
    """Downloads what is missing, reads everything and splits it.

    Args:
        cache: folder for packages and the text made of them.
        held_out: share of characters, by whole documents.
        seed: of the split.

    Returns:
        The corpus; the same packages and seed give the same one.
    """
    versions = {package: _unpacked(cache, package) for package in SOURCES}
    documents = _documents(cache, versions)
    digest = hashlib.sha256()
    for one in documents:
        digest.update(f"{one.name}\0{one.text}\0".encode())
    random.Random(seed).shuffle(documents)
    wanted, at, taken = held_out * sum(len(one.text) for one in documents), 0, 0
    while taken < wanted:
        taken += len(documents[at].text)
        at += 1
    return Corpus(tuple(documents[at:]), tuple(documents[:at]), versions, digest.hexdigest())


def _unpacked(cache: Path, package: str) -> str:
    """Downloads and unpacks a package where that was not done yet, and returns its version."""
    folder = cache / "x" / package
    cache.mkdir(parents=True, exist_ok=True)
    if not any(cache.glob(f"{package}_*.deb")):
        subprocess.run(["apt-get", "download", package], cwd=cache, check=True, capture_output=True)
    archive = max(cache.glob(f"{package}_*.deb"))
    if not folder.is_dir():
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    asked = ["dpkg-deb", "-f", str(archive), "Version"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def _documents(cache: Path, versions: dict[str, str]) -> list[Document]:
    """All documents in order of name; kept as JSON, since reading the HTML takes minutes."""
    key = hashlib.sha256(repr(sorted(versions.items())).encode() + Path(__file__).read_bytes()).hexdigest()[:16]
    kept = cache / f"documents-{key}.json"
    if kept.is_file():
        return [Document(name, text) for name, text in json.loads(kept.read_text())]
    found: list[Document] = []
    seen: set[str] = set()
    for package in sorted(SOURCES):
        root = cache / "x" / package / "usr" / "share"
        wanted = re.compile(SOURCES[package])
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix().removesuffix(".gz")
            if wanted.search(name) and path.is_file() and not path.is_symlink():
                text = _once(_read(path), seen)
                if len(text) >= SHORTEST:
                    found.append(Document(f"{package}/{name}", text))
    kept.write_text(json.dumps([(one.name, one.text) for one in found]))
    return found


def _read(path: Path) -> str:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", errors="replace")
    return plain(text) if ".html" in path.name else text


def _once(text: str, seen: set[str]) -> str:
    """The text without the long paragraphs that are in ``seen``, to which its own are added."""
    kept = []
    for paragraph in re.split(r"\n\s*\n", text):
        key = " ".join(paragraph.split())
        if len(key) >= REPEATED:
            if key in seen:
                continue
            seen.add(key)
        kept.append(paragraph.strip("\n"))
    return "\n\n".join(kept).strip() + "\n"


def plain(html: str) -> str:
    """The text of a page: no markup, scripts or menus; blocks apart by an empty line, preformatted text as it stands.

    Example:
        >>> from experiments.texts import plain
        >>> plain("<title>no</title><h1>Heads</h1><p>One  &amp;\\n<b>two</b><pre>a\\n  b</pre>")
        'Heads\\n\\nOne & two\\n\\na\\n  b'
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return re.sub(r"[ \t]+\n", "\n", re.sub(r"\n{3,}", "\n\n", "".join(reader.words()))).strip()


class _Reader(HTMLParser):
    """Collects the words of a page and where its blocks begin."""

    HIDDEN = frozenset("script style head title nav header footer select button form noscript".split())
    BLOCKS = frozenset("p div h1 h2 h3 h4 h5 h6 ul ol dl table pre blockquote section article hr dt aside main".split())
    LINES = frozenset("br li tr dd".split())
    #: classes and ids of menus in what sphinx, docbook and the rest write
    MENUS = re.compile(
        r"navheader|navfooter|navigation|sphinxsidebar|related|footer|breadcrumb|toplang|headerlink|toc\b"
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[tuple[str, bool]] = []
        self.hidden: list[str] = []
        self.preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = " ".join(value or "" for key, value in attrs if key in ("class", "id", "role"))
        if self.hidden:
            if tag == self.hidden[-1] or tag == self.hidden[0]:
                self.hidden.append(tag)
        elif tag in self.HIDDEN or (tag in ("div", "a", "p", "ul", "table") and self.MENUS.search(named)):
            self.hidden.append(tag)
        elif tag in self.BLOCKS:
            self.preformatted += tag == "pre"
            self.parts.append(("\n\n", True))
        elif tag in self.LINES:
            self.parts.append(("\n", True))

    def handle_endtag(self, tag: str) -> None:
        if self.hidden:
            if tag == self.hidden[-1]:
                self.hidden.pop()
        elif tag in self.BLOCKS:
            self.preformatted -= tag == "pre" and self.preformatted > 0
            self.parts.append(("\n\n", True))
        elif tag in ("td", "th"):
            self.parts.append((" ", False))

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append((data, self.preformatted > 0))

    def words(self) -> Iterator[str]:
        """The parts in order, with runs of white space outside of preformatted text made one space."""
        last = "\n"
        for part, as_it_stands in self.parts:
            text = part if as_it_stands else re.sub(r"\s+", " ", part)
            if not as_it_stands and last[-1:].isspace():
                text = text.lstrip()
            if text:
                last = text
                yield text


def main() -> None:
    """Says what documents there are, by package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for the packages (default: %(default)s)")
    found = corpus(parser.parse_args().data)
    for package in SOURCES:
        texts = [one.text for one in (*found.train, *found.held_out) if one.name.startswith(package + "/")]
        print(f"{package:28}{len(texts):6} documents {sum(map(len, texts)) / 1e6:8.2f} MB  {found.versions[package]}")
    print(json.dumps(found.described(), indent=2))


if __name__ == "__main__":
    main()
