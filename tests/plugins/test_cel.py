"""What selectors of devices may say, and how they fail."""

import msgspec
import pytest

from bayplan.api import Device
from bayplan.cel.devices import CelError, matches
from bayplan.plugins.dynamic_resources.cel_values import device_view

DEVICE = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.10.0"},
        "other.example.com/family": {"string": "ampere"},
    },
    "capacity": {"memory": {"value": "40Gi"}, "other.example.com/slots": {"value": "7"}},
}
D = "gpu.example.com"


@pytest.fixture(scope="module")
def view():
    return device_view(D, msgspec.convert(DEVICE, Device))


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("true", True),
        (f'device.driver == "{D}"', True),
        ("device.driver == 'other'", False),
        (f'device.attributes["{D}"].model == "A100"', True),
        (f'device.attributes["{D}"]["model"] != "A100"', False),
        (f'device.attributes["{D}"].model in ["A100", "H100"]', True),
        (f'device.attributes["{D}"].index > 2 && device.attributes["{D}"].index <= 3', True),
        (f'device.attributes["{D}"].index % 2 == 1', True),
        (f'device.attributes["{D}"].healthy', True),
        (f'!device.attributes["{D}"].healthy', False),
        ('device.attributes["other.example.com"].family.startsWith("am")', True),
        (f'device.attributes["{D}"].model.matches("^A[0-9]+$")', True),
        (f'device.attributes["{D}"].model.lowerAscii() == "a100"', True),
        (f'device.capacity["{D}"].memory.compareTo(quantity("40Gi")) == 0', True),
        (f'device.capacity["{D}"].memory.isGreaterThan(quantity("80Gi"))', False),
        (f'device.capacity["{D}"].memory.compareTo(quantity("10Gi")) >= 0', True),
        (f'device.attributes["{D}"].driverVersion.isGreaterThan(semver("1.9.0"))', True),
        (f'device.attributes["{D}"].driverVersion.compareTo(semver("1.10.0-rc.1")) > 0', True),
        (f'has(device.attributes["{D}"].missing)', False),
        ('"model" in device.attributes["gpu.example.com"]', True),
        ('"x" in device.attributes["unknown"]', False),
        (f'device.attributes["{D}"].missing == 1 || true', True),
        (f'device.attributes["{D}"].missing == 1 && false', False),
        (f'device.attributes["{D}"].index == "3"', False),
        ('1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && -7 / 2 == -3', True),
        ('true ? device.driver.size() == 15 : false', True),
        ("device.allowMultipleAllocations", False),
    ],
)  # fmt: skip
def test_expression(view, expression, result):
    assert result is matches(expression, view)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.",
        "device.driver ==",
        "__import__('os')",
        "open('x')",
        "device.attributes.exists(x, x == 1)",
        f'device.attributes["{D}"].missing == 1',
        'device.attributes["unknown"].x',
        "device.driver",
        "1 < 'a'",
        "1 / 0 == 1",
        "quantity('x').isLessThan(quantity('1'))",
        "device.driver && true",
        "(true",
        "#",
    ],
)
def test_what_is_wrong_or_unknown_is_an_error(view, expression):
    with pytest.raises(CelError):
        matches(expression, view)
