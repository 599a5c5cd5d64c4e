"""Known vulnerabilities of the packages in uv.lock and .ci/uv.txt, by pip-audit: `python3 -m tests.advisories`.

A package of which the index tells no advisories is not known, which is no pass: mirrors often have packages alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AUDIT = "pip-audit==2.10.1"
NOT_KNOWN = 3


def judge(answer: str) -> tuple[int, list[str]]:
    """The exit code and the lines for what pip-audit printed as JSON."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return NOT_KNOWN, ["not known: pip-audit gave no answer"]
    found = [
        f"{each['name']} {each['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version yet'}"
        for each in packages
        for one in each.get("vulns", ())
    ]
    unknown = sum("skip_reason" in each for each in packages)
    if not unknown and packages:
        return int(bool(found)), found
    return 1 if found else NOT_KNOWN, [*found, f"not known: advisories of {unknown} of {len(packages)} packages"]


def main() -> int:
    uv = str(ROOT / ".tools" / "bin" / "uv")
    settings = os.environ | {"UV_CACHE_DIR": str(ROOT / ".tools" / "cache")}
    with tempfile.TemporaryDirectory() as folder:
        lock = f"{folder}/lock.txt"
        export = [uv, "export", "--quiet", "--frozen", "--no-emit-project", "--all-groups", "--output-file", lock]
        subprocess.run(export, cwd=ROOT, env=settings, check=True)
        audit = [uv, "tool", "run", "--quiet", AUDIT, "--requirement", lock, "--requirement", ".ci/uv.txt"]
        audit += ["--disable-pip", "--vulnerability-service", "pypi", "--format", "json", "--progress-spinner", "off"]
        answer = subprocess.run(audit, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=False).stdout
    code, lines = judge(answer)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return code


if __name__ == "__main__":
    sys.exit(main())
