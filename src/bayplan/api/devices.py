# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Dynamic resource allocation: devices on offer, classes of them, and claims for them."""

from typing import ClassVar

import msgspec

from bayplan.api.meta import Condition, Model, NodeSelector, Object, ObjectMeta, Quantity, Resources


class CELSelector(Model, frozen=True):
    """A CEL expression over one device."""

    expression: str = ""


class DeviceSelector(Model, frozen=True):
    """A way to choose devices; CEL is the only one."""

    cel: CELSelector | None = None


class DeviceToleration(Model, frozen=True):
    """A device taint that a request puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Model, frozen=True):
    """How much of each capacity of a device is asked for."""

    requests: Resources = {}


class DeviceRequestDetail(Model, frozen=True):
    """What is asked for: `exactly`, or one of `firstAvailable` (which has a name)."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Model, frozen=True):
    """One request of a claim."""

    name: str = ""
    exactly: DeviceRequestDetail | None = None
    first_available: tuple[DeviceRequestDetail, ...] = ()


class DeviceConstraint(Model, frozen=True):
    """What the devices of some requests must, or must not, have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaim(Model, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[dict[str, object], ...] = ()


class ResourceClaimSpec(Model, frozen=True):
    """`spec` of a claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Model, frozen=True):
    """A device given to a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: Resources = {}


class DeviceAllocation(Model, frozen=True):
    """The devices given to a claim, with the drivers' parameters."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[dict[str, object], ...] = ()


class AllocationResult(Model, frozen=True):
    """`status.allocation` of a claim."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class ConsumerReference(Model, frozen=True):
    """Who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Model, frozen=True):
    """What a driver says about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Model, frozen=True):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Object, kw_only=True, frozen=True):
    """A wish for devices, and what was given."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaim"
    RESOURCE: ClassVar[str] = "resourceclaims"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Model, frozen=True):
    """The claim that a template makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, kw_only=True, frozen=True):
    """Makes a claim for each pod that names it."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaimTemplate"
    RESOURCE: ClassVar[str] = "resourceclaimtemplates"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Model, frozen=True):
    """`spec` of a device class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[dict[str, object], ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Object, kw_only=True, frozen=True):
    """A named set of devices."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "DeviceClass"
    RESOURCE: ClassVar[str] = "deviceclasses"

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Model, frozen=True):
    """One value of a device; exactly one field is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")

    @property
    def value(self) -> int | bool | str | None:
        for value in (self.int_value, self.bool_value, self.string_value, self.version_value):
            if value is not None:
                return value
        return None


class CapacityRange(Model, frozen=True):
    """The amounts of a capacity that may be asked for."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Model, frozen=True):
    """How a request for a part of a capacity is rounded."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Model, frozen=True):
    """A capacity of a device."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Model, frozen=True):
    """An amount shared by several devices."""

    value: Quantity = 0


class CounterSet(Model, frozen=True):
    """Counters that the devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Model, frozen=True):
    """What a device takes from a counter set when it is in use."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Model, frozen=True):
    """Keeps requests away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceTaintSelector(Model, frozen=True):
    """The devices that a rule taints; what is not named is any."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceTaintRuleSpec(Model, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, kw_only=True, frozen=True):
    """Taints devices without touching their slices."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "DeviceTaintRule"
    RESOURCE: ClassVar[str] = "devicetaintrules"

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class Device(Model, frozen=True):
    """A device on offer."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Model, frozen=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Model, frozen=True):
    """`spec` of a slice."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, kw_only=True, frozen=True):
    """Some of the devices of a driver's pool."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceSlice"
    RESOURCE: ClassVar[str] = "resourceslices"

    spec: ResourceSliceSpec = ResourceSliceSpec()
