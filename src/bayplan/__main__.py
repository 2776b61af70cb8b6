"""The program: `bayplan`, `python -m bayplan`, and kubectl's plugins."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, also while it is still being imported."""
    try:
        from bayplan.cli.main import main, plugin

        called = sys.argv[0].rpartition("/")[2]
        plugin() if called.startswith("kubectl") else main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
