"""`make verify`: check the files of a publication with nothing but its folder and the public key."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assets.publication.signature import VerificationError, altered_files, fingerprint, identity, read_public_key


def main(arguments: Sequence[str]) -> int:
    """Verify a folder and print what it is, or every problem; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.verify", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a publication")
    parser.add_argument("--key", type=Path, required=True, help="the public key (PEM), from a source that you trust")
    given = parser.parse_args(arguments)
    try:
        key = read_public_key(given.key)
        if problems := altered_files(given.folder, key):
            print("\n".join(f"{given.folder}: {problem}" for problem in problems), file=sys.stderr)
            return 1
        print(f"{given.folder}: intact, signed with the key {fingerprint(key)}\nIt is {identity(given.folder)}.")
    except VerificationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
