"""Starts API servers quickly: loads everything once, then forks a server for each line it reads.

    crash_server.py DATA PORT

Each line on stdin starts a server on the same data and port; its process id is printed when it
accepts connections. A server is an ordinary process: killing it kills exactly what a crash would.
"""

import os
import sys
from pathlib import Path

from bayplan.apiserver.serving import Settings
from bayplan.cli.serve import run


def serve(settings: Settings) -> None:
    def ready(line: str) -> None:
        if "is ready" in line:
            sys.stdout.write(f"{os.getpid()}\n")
            sys.stdout.flush()

    run(settings, "", ready)


def main() -> None:
    data, port = Path(sys.argv[1]), int(sys.argv[2])
    settings = Settings(data=data, port=port, store="sqlite", tls_generate=False)
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            serve(settings)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
