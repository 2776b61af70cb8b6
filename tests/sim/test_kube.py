"""Scenarios and a real kube-apiserver with a real kube-scheduler."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bayplan.sim.load import load_scenario
from bayplan.testing.servers import bayplan_command, start_kube

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube"),
]

SCENARIO = """
apiVersion: bayplan.dev/v1alpha1
kind: Scenario
metadata: {name: against}
steps:
  - nodes: {count: 2, name: "node-{i}", cpu: 2}
  - after: 2s
    pods: {name: "first", cpu: 1500m, labels: {app: one}}
    expect: [{pod: first, bound: true, within: 30s}]
  - pods: {name: "second", cpu: 1500m}
    expect:
      - {pod: second, bound: true, within: 30s}
      - {pods: "*", byNode: {exactly: {node-0: 1, node-1: 1}}}
      - {event: Scheduled, object: second}
  - pods: {name: big, cpu: 8}
    expect: [{pod: big, pendingBecause: Insufficient cpu, within: 30s}]
  - delete: {kind: Pod, name: first, gracePeriodSeconds: 0}
    expect: [{pod: first, gone: true, within: 30s}]
"""


def test_a_recording_of_a_real_cluster_replays(tmp_path: Path):
    file, recording = tmp_path / "s.scenario.yaml", tmp_path / "day.jsonl"
    file.write_text(SCENARIO)
    with start_kube() as cluster:
        cluster.kube_scheduler()
        kubeconfig = str(cluster.kubeconfig)
        recorder = subprocess.Popen(
            bayplan_command("scenario", "record", "--kubeconfig", kubeconfig, str(recording)),
            env=dict(os.environ),
            stderr=subprocess.PIPE,
        )
        try:
            run = subprocess.run(
                bayplan_command(
                    "scenario", "run", str(file), "--against", kubeconfig, "-o", "json"
                ),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=60)
    assert 0 == run.returncode, run.stdout[-3000:] + run.stderr
    real = json.loads(run.stdout)[0]["placements"]

    replayed = load_scenario(recording).run()

    assert replayed.ok, replayed.problems()
    assert {"default/first", "default/second", "default/big"} == set(replayed.placements)
    assert "" == replayed.placements["default/big"] == real["default/big"]
    assert {"node-0", "node-1"} == {
        replayed.placements["default/first"],
        replayed.placements["default/second"],
    }
    assert "default/first" not in replayed.tracker.pods
