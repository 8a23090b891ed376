"""The command: ``python -m protean solve problem.yaml``."""

import sys

from . import _core


def main() -> int:
    """Run the command with the arguments of the process, and return its exit code."""
    command = getattr(_core, "command", None)
    if command is None:
        print(
            "this build of the package has no command; build it with PROTEAN_APPS=ON, or install the program `protean`",
            file=sys.stderr,
        )
        return 3
    return int(command(["protean", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
