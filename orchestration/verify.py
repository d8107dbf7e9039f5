"""`make verify`: check the editions of a release with nothing but its folder and the public key."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assets.publication.signature import VerificationError, fingerprint, read_public_key, verify


def main(arguments: Sequence[str]) -> int:
    """Verify a folder and print what it holds, and every problem; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.verify", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a release, or of one of its editions")
    parser.add_argument("--key", type=Path, required=True, help="the public key (PEM), from a source that you trust")
    given = parser.parse_args(arguments)
    try:
        key = read_public_key(given.key)
    except VerificationError as error:
        print(error, file=sys.stderr)
        return 1
    intact, problems = verify(given.folder, key)
    if intact:
        print(f"Intact, and signed with the key {fingerprint(key)}:")
    for folder, identity in intact.items():
        print(f"{folder}: {identity}")
    for problem in problems:
        print(f"{given.folder}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
