"""The command `stirred`, as `python -m stirred` too."""

from orchestration.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
