"""What can go wrong with a scenario.

BayplanError
└── ScenarioError
    ├── ScenarioSyntaxError   a file is wrong; the text names file, line and field
    └── ExpectationFailed     the cluster did something else; the text says what
"""

from bayplan.errors import BayplanError


class ScenarioError(BayplanError):
    """A scenario cannot go on."""


class ScenarioSyntaxError(ScenarioError):
    """A scenario file is wrong; the text names file, line and field."""


class ExpectationFailed(ScenarioError):
    """The cluster did not do what was expected."""
