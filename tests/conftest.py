"""Which tests share a worker when they run in parallel."""

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file stay together, for its fixtures; so do all that read the one smoke run."""
    for item in items:
        group = "smoke" if "smoke" in getattr(item, "fixturenames", ()) else item.location[0]
        item.add_marker(pytest.mark.xdist_group(group))
