"""What records cost, counted in bytecodes: unlike time, these are the same on a busy machine."""

import sys

import pytest

from bayplan.cli.bench_decide import NOW, make_engine, make_pods

PODS, COUNTED = 150, 50


def bytecodes(workload, *, records):
    """How many one pod takes, once its template is known."""
    engine = make_engine(300, 0, workload, records)
    pods = make_pods(workload, PODS)
    for pod in pods[:-COUNTED]:
        engine.place(pod, NOW)
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for pod in pods[-COUNTED:]:
            engine.place(pod, NOW)
    finally:
        sys.settrace(before)
    return count / COUNTED


@pytest.mark.parametrize("workload", ["basic", "mixed", "owned"])
def test_a_record_takes_a_twentieth_of_an_attempt(workload):
    with_records = bytecodes(workload, records=True)
    without = bytecodes(workload, records=False)

    assert 0 < with_records - without < 0.05 * without
