"""Fails when a file names a path of one machine, has a leftover note, or is too long or too wide to read.

Looks at all files that git tracks or would track, so it fails before the commit. In a copy without git it looks at
everything outside hidden folders.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 450
MAX_WIDTH = 160  # of a line of Markdown

# A path starts after a blank, a quote or the like: src/rota/work/ is a folder of ours, not of a machine.
MACHINE_PATH = re.compile(r"""(?:^|[\s"'`=:,(<>\[{|]|file://)/(?:work|root|home|Users)/""")
LEFT_OVER = re.compile(r"\b(?:T[O]DO|F[I]XME)\b")  # spelt so that this file passes


def files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        names = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        paths = [ROOT / name for name in names if not any(part.startswith(".") for part in name.parts)]
    else:
        paths = [ROOT / name for name in listing.split("\0") if name]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def complaints(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return
    name = path.relative_to(ROOT)
    for number, line in enumerate(lines, start=1):
        if MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine: {line.strip()[:80]}"
        if LEFT_OVER.search(line):
            yield f"{name}:{number}: left undone: {line.strip()[:80]}"
        if path.suffix == ".md" and len(line) > MAX_WIDTH:
            yield f"{name}:{number}: {len(line)} characters; a line of Markdown may have {MAX_WIDTH}"
    if path.suffix == ".py" and len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines; a Python file may have {MAX_LINES}"


def main() -> int:
    checked = files()
    found = [complaint for path in checked for complaint in complaints(path)]
    print("\n".join(found) if found else f"hygiene: {len(checked)} files, nothing to complain about")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
