"""Read by every Python that a test under a mutant starts."""

from tests.mutation.planting import install_from_environment

install_from_environment()
