"""Every test of the contract runs once a colour, and once more with every method under another name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from acp_core import V1, MethodTable
from tests.contract.harness import Bench, Binding, Loop, Threads
from tests.contract.page import LEFT_OUT, Page

COLOURS = ["asyncio", "trio", "threads"]
NOT_ON_THE_PAGE = {name for names in LEFT_OUT.values() for name in names}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which colours run a body: the shipped bindings all of them, the page's what it has the surface for."""
    if "binding" in metafunc.fixturenames:
        on_the_page = metafunc.function.__name__ not in NOT_ON_THE_PAGE
        metafunc.parametrize("binding", [*COLOURS, "page"] if on_the_page else COLOURS, indirect=True)


@pytest.fixture
def binding(request: pytest.FixtureRequest) -> Iterator[Binding]:
    """A colour."""
    if request.param == "threads":
        yield Threads()
        return
    if request.param == "page":
        with start_blocking_portal(backend="asyncio") as portal:
            yield Page("page", portal)
        return
    with start_blocking_portal(backend=request.param) as portal:
        yield Loop(request.param, portal)


@pytest.fixture(params=["v1", "renamed"])
def methods(request: pytest.FixtureRequest) -> MethodTable:
    """The method table: as it is, and with every name on the wire changed, so that no binding can know one."""
    if request.param == "v1":
        return V1
    return V1.renamed({row.key: f"renamed/{row.key}" for row in V1})


@pytest.fixture
def bench(binding: Binding, methods: MethodTable) -> Iterator[Bench]:
    """The tools of a test, cleaned up after it."""
    bench = Bench(binding, methods)
    with bench.stack:
        yield bench
