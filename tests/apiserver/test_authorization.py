"""RBAC: which subjects a binding means, and which requests a rule covers."""

import pytest

from bayplan.api.user import User
from bayplan.apiserver.authorization import binds

ROBOT = "system:serviceaccount:apps:robot"


@pytest.mark.parametrize(
    ("subject", "user", "bound"),
    [
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "apps"},
            ROBOT,
            True,
            id="the account of that namespace",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot"},
            "system:serviceaccount:here:robot",
            True,
            id="without a namespace, the binding's own",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot"},
            ROBOT,
            False,
            id="without a namespace, not another one",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
            ROBOT,
            False,
            id="an account of the same name elsewhere",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "bot", "namespace": "apps"},
            ROBOT,
            False,
            id="a name that the user's only ends with",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "apps"},
            "system:serviceaccount:apps:robot:robot",
            False,
            id="a user whose name only begins so",
        ),
        pytest.param({"kind": "User", "name": "robot"}, ROBOT, False, id="a user of that name"),
        pytest.param({"kind": "User", "name": ROBOT}, ROBOT, True, id="the account as a user"),
        pytest.param({"kind": "Group", "name": "crew"}, "bob", True, id="a group of the user"),
        pytest.param({"kind": "Group", "name": "bob"}, "bob", False, id="a group called like him"),
        pytest.param({"kind": "Robot", "name": "bob"}, "bob", False, id="an unknown kind"),
    ],
)
def test_a_binding_means_its_subjects_and_nobody_else(subject, user, bound):
    binding = {"subjects": [subject]}

    assert bound is binds(binding, User(user, ("crew",)), "here")
