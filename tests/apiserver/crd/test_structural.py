"""Schemas of definitions are refused as kube-apiserver v1.36.4 refused them (structural.json)."""

import json
import pathlib

import pytest

from bayplan.apiserver.crd.structural import validate_schema

RECORDED = json.loads(pathlib.Path(__file__).with_name("structural.json").read_text())


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_schema_is_judged_as_recorded(name):
    case = RECORDED[name]

    found = validate_schema(case["schema"], "")

    assert case["causes"] == sorted([cause.field, cause.message] for cause in found)
