"""What claims ask for, in one form: the alternatives of each request, with their classes.

Also the test whether one device satisfies one alternative on its own: selectors, taints, and how
much of each capacity a request takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Device, DeviceClass, DeviceRequestDetail, ResourceClaim, quantity
from bayplan.api.devices import CapacityRequestPolicy, DeviceTaint, DeviceToleration
from bayplan.api.meta import Quantity
from bayplan.cel.errors import CelError, CompileError
from bayplan.framework import Lister
from bayplan.plugins.dynamic_resources.pools import Offer, Pools

ALL = "All"
NO_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)
HARD_EFFECTS = frozenset(("NoSchedule", "NoExecute"))


class Alternative:
    """One way to satisfy a request: `exactly`, or one of `firstAvailable`."""

    __slots__ = (
        "_answers",
        "_hints",
        "_selectors",
        "claim",
        "count",
        "detail",
        "index",
        "label",
        "wants_all",
    )

    def __init__(
        self,
        claim: ResourceClaim,
        label: str,
        index: int,
        detail: DeviceRequestDetail,
        device_class: DeviceClass,
        pools: Pools,
    ) -> None:
        self.claim = claim
        self.label = label
        """`request`, or `request/subrequest`."""
        self.index = index
        self.detail = detail
        self.wants_all = detail.allocation_mode == ALL
        self.count = detail.count or 1
        own, whole = detail.selectors, device_class.spec.selectors
        self._selectors = tuple(
            (f"{owner}: selector #{number}", selector.cel.expression)
            for owner, selectors in (
                (f"class {device_class.name}", whole),
                (f"claim {claim.key}", own),
            )
            for number, selector in enumerate(selectors)
            if selector.cel is not None
        )
        self._hints = pools.features.modern
        self._answers = pools.answers(tuple(text for _, text in self._selectors))

    @property
    def where(self) -> str:
        """The claim and the request, or the choice of it, as messages name them."""
        return f"claim {self.claim.key}, request {self.label.rpartition('/')[2]}"

    def selects(self, offer: Offer) -> bool:
        """Whether class and request select the device; raises CelError."""
        known = self._answers.get(id(offer))
        if known is None:
            known = all(self._matches(where, text, offer) for where, text in self._selectors)
            self._answers[id(offer)] = known
        return known

    def _matches(self, where: str, text: str, offer: Offer) -> bool:
        from bayplan.cel.devices import matches  # a tenth of the scheduler's start; few select

        try:
            return matches(text, offer.view)
        except CompileError as problem:
            raise CelError(f"{where}: CEL compile error: {problem}") from problem
        except CelError as problem:
            reason = str(problem)
            if self._hints:
                where += f" on device {'/'.join(offer.id)}"
                reason += NO_KEY_HINT if "no such key:" in reason else ""
            raise CelError(f"{where}: CEL runtime error: {reason}") from problem

    def tolerates(self, taints: Sequence[DeviceTaint]) -> bool:
        """Whether no taint keeps the request off a device."""
        return all(
            taint.effect not in HARD_EFFECTS
            or any(_tolerates(item, taint) for item in self.detail.tolerations)
            for taint in taints
        )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def class_problem(claim: ResourceClaim, classes: Lister[DeviceClass], *, choices: bool) -> str:
    """Why a claim cannot be allocated whatever the devices; empty if it can.

    `choices`: requests may have subrequests.
    """
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            asked = [(request.name, request.exactly)]
        elif request.first_available and not choices:
            return (
                f"resource claim {claim.key}, request {request.name}: has subrequests, but the "
                "DRAPrioritizedList feature is disabled"
            )
        elif request.first_available:
            asked = [(f"{request.name}/{item.name}", item) for item in request.first_available]
        else:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
        for label, detail in asked:
            if classes.get(detail.device_class_name) is None:
                return f"request {label}: device class {detail.device_class_name} does not exist"
    return ""


def alternatives(
    claim: ResourceClaim, classes: Lister[DeviceClass], pools: Pools
) -> list[tuple[Alternative, ...]]:
    """For each request of a claim its alternatives, in order."""
    found: list[tuple[Alternative, ...]] = []
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            asked = [(request.name, request.exactly)]
        else:
            asked = [(f"{request.name}/{item.name}", item) for item in request.first_available]
        choices = []
        for index, (label, detail) in enumerate(asked):
            device_class = classes.get(detail.device_class_name)
            if device_class is not None:
                choices.append(Alternative(claim, label, index, detail, device_class, pools))
        found.append(tuple(choices))
    return found


def consumption(
    device: Device, detail: DeviceRequestDetail, *, modern: bool
) -> dict[str, Quantity] | None:
    """How much of each capacity of a device a request takes; None if it can never have that.

    A request takes all, or the default, of a capacity that it does not name. `modern`: a rounded
    amount is written as the step is, not in powers of two.
    """
    asked = detail.capacity.requests if detail.capacity is not None else {}
    if any(name not in device.capacity for name in asked):
        return None
    found: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        amount, policy = asked.get(name), capacity.request_policy
        if amount is None:
            default = policy.default if policy is not None else None
            amount = capacity.value if default is None else default
        elif policy is not None:
            amount = _rounded(amount, policy, modern=modern)
        if amount is None or quantity.nanos(amount) > quantity.nanos(capacity.value):
            return None
        found[name] = amount
    return found


def _rounded(amount: Quantity, policy: CapacityRequestPolicy, *, modern: bool) -> Quantity | None:
    """The next amount that a policy allows; None if there is none."""
    wanted = quantity.nanos(amount)
    if (valid := policy.valid_range) is not None:
        if valid.min is not None and wanted < quantity.nanos(valid.min):
            amount = valid.min
        elif valid.step is not None:
            least, step = quantity.value(valid.min or 0), quantity.value(valid.step)
            count = -((least - quantity.value(amount)) // step)
            form = quantity.parse(valid.step).format if modern else quantity.BINARY_SI
            amount = quantity.format_nanos((least + count * step) * quantity.NANO, form)
        too_much = valid.max is not None and quantity.nanos(amount) > quantity.nanos(valid.max)
        return None if too_much else amount
    if policy.valid_values:
        return next((item for item in policy.valid_values if quantity.nanos(item) >= wanted), None)
    return amount
