"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies with their bindings and parameters.

A policy is compiled once for a version of it. Its expressions share a budget for each binding and
parameter; `variables` are calculated when first read. What cannot be evaluated refuses the write or
lets it pass by `failurePolicy`. What a write is asked is found on the event loop (`asked`), because
that reads the store; expressions are evaluated beside it, so nobody waits for a dear one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from bayplan.api.labels import compile_selector
from bayplan.api.meta import LabelSelector
from bayplan.api.patch import PatchError, apply_json_patch
from bayplan.api.schema import Type
from bayplan.apiserver.admission import Attributes, Reader
from bayplan.apiserver.apply.walk import TypedError, merge
from bayplan.apiserver.authorization import Authorizer
from bayplan.apiserver.codec import Object
from bayplan.apiserver.dynamic.expressions import Budget, activation, environment
from bayplan.apiserver.dynamic.matching import Constraints
from bayplan.apiserver.errors import ApiError, forbidden
from bayplan.apiserver.kinds import Kind, Registry
from bayplan.apiserver.request import Request
from bayplan.cel import types as t
from bayplan.cel.cost import BUDGET, PER_CALL_LIMIT
from bayplan.cel.environment import Environment, Program
from bayplan.cel.errors import CelError, CostExceeded, EvaluationError
from bayplan.cel.values import check_unfolded

CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
MESSAGE_LIMIT = 5 * 1024
OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class ConfigurationProblem(Exception):
    """A policy or binding that cannot be used as it is written."""


class Objects(dict[str, dict[str, t.Type]]):
    """The structs that mutations write: `Object{…}` of any shape, and `JSONPatch{…}`."""

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or self._is_object(name)

    def __missing__(self, name: str) -> Any:
        if self._is_object(name):
            return _AnyField()
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is that method

    @staticmethod
    def _is_object(name: object) -> bool:
        return isinstance(name, str) and (name == "Object" or name.startswith("Object."))


class _AnyField(dict[str, t.Type]):
    def get(self, name: str, default: Any = None) -> t.Type:
        return t.DYN


_PATCH = {"op": t.STRING, "path": t.STRING, "from": t.STRING, "value": t.DYN}


def mutation_environment(made: Environment) -> Environment:
    """The same environment, where expressions may also write objects and patches."""
    made.structs = Objects({**made.structs, "JSONPatch": _PATCH})
    return made


class Policy:
    """A policy of either kind, compiled."""

    def __init__(self, given: Object, *, mutating: bool) -> None:
        spec = given.get("spec") or {}
        self.name: str = given["metadata"]["name"]
        self.spec = spec
        self.constraints = Constraints(spec.get("matchConstraints") or {}, "resourceRules")
        self.ignores_failures = spec.get("failurePolicy", "Fail") == "Ignore"
        self.param_kind: Object | None = spec.get("paramKind")
        self.reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        self.variables: list[tuple[str, Program]] = []
        self.problem: CelError | None = None
        try:
            self.environment = self._environment(mutating)
            self._compile(spec)
        except CelError as problem:
            self.problem = problem

    def _environment(self, mutating: bool) -> Environment:
        """The policy's environment; each variable sees those before it."""
        known: dict[str, t.Type] = {}
        params = self.param_kind is not None
        for each in self.spec.get("variables") or ():
            program = environment(params=params, variables=known or None).compile(
                each["expression"]
            )
            self.variables.append((each["name"], program))
            known[each["name"]] = program.type
        made = environment(params=params, variables=known or None)
        return mutation_environment(made) if mutating else made

    def _compile(self, spec: Object) -> None:
        compiled = self.environment.compile
        self.conditions = [
            (each["expression"], compiled(each["expression"]))
            for each in spec.get("matchConditions") or ()
        ]
        self.validations = [
            (
                each,
                compiled(each["expression"]),
                compiled(each["messageExpression"]) if each.get("messageExpression") else None,
            )
            for each in spec.get("validations") or ()
        ]
        self.mutations = [
            (kind, text, compiled(text))
            for each in spec.get("mutations") or ()
            for kind, text in (_mutation(each),)
        ]


def _mutation(given: Object) -> tuple[str, str]:
    kind = given.get("patchType", "")
    body = given.get("jsonPatch" if kind == "JSONPatch" else "applyConfiguration") or {}
    return kind, body.get("expression", "")


class Binding:
    """A binding: which writes, and with which parameters."""

    def __init__(self, given: Object) -> None:
        spec = given.get("spec") or {}
        self.name: str = given["metadata"]["name"]
        self.policy: str = spec.get("policyName", "")
        self.param_ref: Object | None = spec.get("paramRef")
        self.actions: list[str] = list(spec.get("validationActions") or ("Deny",))
        resources = spec.get("matchResources") or {}
        rules = resources.get("resourceRules")
        everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
        narrowed = rules or [{**everything, "resources": ["*", "*/*"]}]
        self.constraints = Constraints({**resources, "resourceRules": narrowed}, "resourceRules")


Params = list[Object | None] | ConfigurationProblem


class Question(NamedTuple):
    """What one binding of a policy asks about a write."""

    policy: Policy
    binding: Binding
    params: Params


class Write:
    """One write that policies are asked about."""

    def __init__(
        self,
        attrs: Attributes,
        request: Request,
        reader: Reader,
        authorizer: Authorizer,
        registry: Registry,
        kinds: Sequence[Kind],
    ) -> None:
        """`kinds` are the forms of what is written, that of `attrs` first."""
        self.attrs, self.request, self.reader = attrs, request, reader
        self.authorizer, self.registry, self.kinds = authorizer, registry, kinds
        of_namespace = attrs.resource == "namespaces" and not attrs.group
        self._namespace: Object | None = None
        if attrs.namespace and not of_namespace:
            self._namespace = reader.get("", "namespaces", "", attrs.namespace)

    def asked(self, policy: Policy, bindings: Iterable[Binding]) -> list[Question]:
        """Return the bindings of a policy that are about this write, with their parameters."""
        if self._form(policy.constraints) is None:
            return []
        return [
            Question(policy, binding, self._params_or_problem(policy, binding))
            for binding in bindings
            if self._form(binding.constraints) is not None
        ]

    def _form(self, constraints: Constraints) -> Kind | None:
        return constraints.form(self.attrs, self.reader, self.kinds)

    def _params_or_problem(self, policy: Policy, binding: Binding) -> Params:
        try:
            return self.params(policy, binding)
        except ConfigurationProblem as problem:
            return problem

    def values(self, policy: Policy, param: Object | None, budget: Budget) -> dict[str, Any]:
        """What the expressions of a policy see."""
        values = activation(self.attrs, self.request, self.authorizer, self._namespace)
        values["params"] = param
        if policy.variables:
            values["variables"] = _Variables(policy, values, budget)
        return values

    def params(self, policy: Policy, binding: Binding) -> list[Object | None]:
        """The parameters that a binding brings; none of them means: nothing to check."""
        kind, ref = policy.param_kind, binding.param_ref
        if kind is None or ref is None:
            return [None]
        found = self._param_kind(kind)
        group, resource, namespaced = found
        if ref.get("namespace") and not namespaced:
            raise ConfigurationProblem(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        namespace = (ref.get("namespace") or self.attrs.namespace) if namespaced else ""
        if namespaced and not namespace:
            raise ConfigurationProblem(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                "resources"
            )
        params: list[Object | None] = list(self._stored(group, resource, namespace, ref))
        if not params and ref.get("parameterNotFoundAction", "Deny") == "Deny":
            raise ConfigurationProblem(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return params

    def _stored(self, group: str, resource: str, namespace: str, ref: Object) -> Iterable[Object]:
        if ref.get("name"):
            one = self.reader.get(group, resource, namespace, ref["name"])
            return [] if one is None else [one]
        selector = compile_selector(msgspec.convert(ref.get("selector") or {}, LabelSelector))
        return [
            each
            for each in self.reader.list(group, resource, namespace)
            if selector.matches(each["metadata"].get("labels") or {})
        ]

    def _param_kind(self, kind: Object) -> tuple[str, str, bool]:
        version = kind.get("apiVersion", "")
        found = self.registry.by_kind(version, kind.get("kind", ""))
        if found is not None:
            return found.group, found.resource, found.namespaced
        raise ConfigurationProblem(
            "failed to configure policy: failed to find resource referenced by paramKind: "
            f"'{version}, Kind={kind.get('kind', '')}'"
        )


class _Variables(dict[str, Any]):
    """`variables.x`: calculated when it is first read, and kept for the other expressions."""

    def __init__(self, policy: Policy, values: dict[str, Any], budget: Budget) -> None:
        super().__init__()
        self._programs = dict(policy.variables)
        self._values = values
        self._budget = budget

    def get(self, name: str, default: Any = None) -> Any:
        if name in self:
            return self[name]
        program = self._programs.get(name)
        if program is None:
            return default
        frame = self._budget.frame(self._values, PER_CALL_LIMIT)
        try:
            self[name] = program.run(frame)
        except EvaluationError as problem:
            words = f'composited variable "{name}" fails to evaluate'
            raise EvaluationError(f"{words}: {problem}") from problem
        finally:
            self._budget.spent(frame)
        return self[name]


def _run(program: Program, text: str, values: dict[str, Any], budget: Budget) -> Any:
    """Evaluate an expression of a policy; raises EvaluationError in upstream's words."""
    try:
        frame = budget.frame(values, PER_CALL_LIMIT)
    except CostExceeded:
        raise EvaluationError(OUT_OF_BUDGET) from None
    try:
        return program.run(frame)
    except EvaluationError as problem:
        raise EvaluationError(f"expression '{text}' resulted in error: {problem}") from problem
    finally:
        budget.spent(frame)


def _conditions_hold(policy: Policy, values: dict[str, Any], budget: Budget) -> bool:
    problems: list[EvaluationError] = []
    for text, program in policy.conditions:
        try:
            if _run(program, text, values, budget) is False:
                return False
        except EvaluationError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return True


# -- validating ------------------------------------------------------------------------------------


def validate(questions: Iterable[Question], write: Write) -> None:
    """Run validating policies; raises the refusal of the first that says no."""
    denied: list[tuple[Policy, Binding, str, str]] = []
    attrs, request = write.attrs, write.request
    for question in questions:
        policy, binding, _ = question
        for message, reason in _decisions(question, write):
            for action in binding.actions:
                if action == "Deny":
                    denied.append((policy, binding, message, reason))
                elif action == "Warn":
                    request.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' "
                        f"with binding '{binding.name}': {message}"
                    )
    if denied:
        policy, binding, message, reason = denied[0]
        text = (
            f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied "
            f"request: {message}"
        )
        raise _denied(attrs, text, reason)


def _denied(attrs: Attributes, text: str, reason: str) -> ApiError:
    refused = forbidden(attrs.group, attrs.resource, attrs.name, text)
    details = {**(refused.details or {}), "causes": [{"message": text}]}
    return ApiError(CODES.get(reason, 422), reason, str(refused), details=details)


def _decisions(question: Question, write: Write) -> Iterator[tuple[str, str]]:
    """What a policy has against a write: messages and reasons."""
    policy, _, params = question
    if isinstance(params, ConfigurationProblem):
        if not policy.ignores_failures:
            yield f"failed to configure binding: {params}", "Invalid"
        return
    for param in params:
        budget = Budget(BUDGET)
        values = write.values(policy, param, budget)
        try:
            if policy.problem is not None:
                raise policy.problem
            if not _conditions_hold(policy, values, budget):
                continue
        except CelError as problem:
            if not policy.ignores_failures:
                yield str(problem), "Invalid"
            continue
        yield from _judged(policy, values, budget)


def _judged(policy: Policy, values: dict[str, Any], budget: Budget) -> Iterator[tuple[str, str]]:
    for given, program, message in policy.validations:
        try:
            if _run(program, given["expression"], values, budget) is True:
                continue
        except EvaluationError as problem:
            if not policy.ignores_failures:
                yield str(problem), "Invalid"
            continue
        yield _message(given, message, values, budget), given.get("reason") or "Invalid"


def _message(given: Object, program: Program | None, values: dict[str, Any], budget: Budget) -> str:
    if program is not None:
        try:
            text = str(_run(program, given["messageExpression"], values, budget)).strip()
            if text and "\n" not in text and len(text.encode()) <= MESSAGE_LIMIT:
                return text
        except EvaluationError:
            pass  # upstream falls back to the plain message as well
    plain = str(given.get("message") or "").strip()
    return plain or f"failed expression: {given['expression'].strip()}"


# -- mutating --------------------------------------------------------------------------------------


def mutate(questions: Iterable[Question], write: Write, type_: Type | None) -> Object:
    """Run a mutating policy; return the object as it makes it. Raises the refusal."""
    attrs = write.attrs
    obj = attrs.obj
    for policy, binding, params in questions:
        try:
            if isinstance(params, ConfigurationProblem):
                raise params
            for param in params:
                obj = _mutated(policy, param, write, obj, type_)
        except (CelError, ConfigurationProblem, PatchError, TypedError) as problem:
            if policy.ignores_failures:
                continue
            text = f"policy '{policy.name}' with binding '{binding.name}' denied request: {problem}"
            refused = forbidden(attrs.group, attrs.resource, attrs.name, "")
            details = {**(refused.details or {}), "causes": [{"message": text}]}
            raise ApiError(403, "Forbidden", text, details=details) from problem
    return obj


def _mutated(
    policy: Policy, param: Object | None, write: Write, obj: Object, type_: Type | None
) -> Object:
    budget = Budget(BUDGET)
    values = {**write.values(policy, param, budget), "object": obj}
    if policy.problem is not None:
        raise policy.problem
    if not _conditions_hold(policy, values, budget):
        return obj
    for kind, text, program in policy.mutations:
        values["object"] = obj
        change = _run(program, text, values, budget)
        check_unfolded(change)
        if kind == "JSONPatch":
            obj = apply_json_patch(obj, [_operation(each) for each in change])
        elif type_ is not None:
            obj = merge(obj, change, type_)
    return obj


def _operation(given: Any) -> Object:
    if not isinstance(given, dict):
        raise EvaluationError(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
        )
    return dict(given)
