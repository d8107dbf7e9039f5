"""The command `stirred`, also available as `python -m stirred`."""

from orchestration.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
