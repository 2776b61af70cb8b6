"""The errors that Bayplan raises on purpose.

    BayplanError
    ├── ConfigError        a configuration file or flag is wrong; the text says what to change
    ├── DecodeError        an object is not what its kind says; the text names the field
    └── PluginError        a plugin raised or returned what its extension point does not allow

Packages with their own family (store, client, apiserver) derive it from BayplanError and draw it
in their own `errors.py`. Commands turn a BayplanError into one line on stderr and exit code 1.
"""


class BayplanError(Exception):
    """Something a user can act on; the text says how."""


class ConfigError(BayplanError):
    """A configuration file or flag is wrong."""


class DecodeError(BayplanError):
    """An object is not what its kind says it is."""


class PluginError(BayplanError):
    """A plugin raised, or returned what its extension point does not allow."""
