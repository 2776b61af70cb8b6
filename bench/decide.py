#!/usr/bin/env python3
"""Decide-only benchmark of the engine; `bayplan bench decide` is the same program.

Without arguments it runs every workload; with arguments it takes those of the command.
"""

import sys

from bayplan.cli.bench_decide import command

if __name__ == "__main__":
    command(args=sys.argv[1:] or ["--workload", "all"])
