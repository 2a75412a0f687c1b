"""Accounts with several regions, each an emulator of its own, and what is done to them and beside them."""

import json
import selectors
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey

from harness import numbered

WEST, EAST, NORTH = REGIONS = ("West US", "East US", "North Europe")

# What is waited for takes a few seconds at most; this only ends a wait for something that never comes.
TIMEOUT_SECONDS = 30


@dataclass
class Laboratory:
    """Starts the accounts that the scenarios break."""

    emulator: str
    transport: str
    certificate_dir: str

    @contextmanager
    def account(self, partitions: int = 2) -> Iterator["RegionalAccount"]:
        """A fresh account, for as long as the block lasts."""
        process = subprocess.Popen(
            [self.emulator, "emulator", "--json", "--port", "0", "--partitions", str(partitions),
             "--regions", ",".join(REGIONS), "--replication-delay", "20ms",
             "--certificate-dir", self.certificate_dir],
            stdout=subprocess.PIPE)
        try:
            facts = json.loads(first_line(process.stdout))
            endpoint = facts["endpoint" if self.transport == "TLS" else "http_endpoint"]
            yield RegionalAccount(endpoint, facts["http_endpoint"], facts["key"])
        finally:
            process.kill()
            process.wait()


def first_line(stream) -> bytes:
    """The first line of a process's output, which has to come soon."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        assert selector.select(TIMEOUT_SECONDS), "the emulator does not say where it is"
        return stream.readline()


@dataclass
class RegionalAccount:
    """An account with several regions: clients of it, and its admin API."""

    endpoint: str
    admin_endpoint: str
    key: str

    def client(self, *preferred: str) -> CosmosClient:
        return CosmosClient(self.endpoint, credential=self.key, preferred_locations=list(preferred))

    def container(self, *preferred: str) -> ContainerProxy:
        """The container `outages/items`, through a client that prefers regions."""
        database = self.client(*preferred).create_database_if_not_exists("outages")
        return database.create_container_if_not_exists("items", PartitionKey(path="/pk"))

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.admin_endpoint}_sidereal/{urllib.parse.quote(path)}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"x-sidereal-key": self.key, "content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)

    def change_write_region(self, region: str) -> None:
        """Hands the writes over gracefully, in less time than the service takes."""
        durations = {"announcement_ms": 300, "overlap_ms": 500}
        self.admin("POST", "write-region", {"region": region, **durations})

    def split(self, range_id: str, takes_ms: int = 0) -> list[str]:
        """Splits a range of the container, and names its halves."""
        body = {"container": "outages/items", "range": range_id, "takes_ms": takes_ms}
        return self.admin("POST", "partitions/split", body)["ranges"]

    def counted(self, **sort: Any) -> int:
        """How many requests about items there were of a sort, such as those to one region."""
        rows = self.admin("GET", "counters")["counters"]
        return sum(row["requests"] for row in rows if {"resource": "Document", **sort}.items() <= row.items())


class Load:
    """Work that goes on in the background, one step after the other, until the block ends.

    The first step that fails ends it, and the block with it.
    """

    def __init__(self, step: Callable[[int], None], first: int = 0) -> None:
        self.steps = first
        self._step = step
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._step(self.steps)
            except BaseException as failure:  # Raised where the load is looked at.
                self._failure = failure
                return
            self.steps += 1

    def goes_on(self, count: int = 10) -> None:
        """Waits until so many more steps are done."""
        enough = self.steps + count
        self.goes_on_until(lambda: self.steps >= enough)

    def goes_on_until(self, condition: Callable[[], bool]) -> None:
        """Waits until something is so, while the steps keep succeeding."""
        before = self.steps
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self._failure:
                raise AssertionError(f"step {self.steps} failed") from self._failure
            assert time.monotonic() < deadline, f"{self.steps - before} steps later it is still not so"
            time.sleep(0.02)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, kind, *_) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_SECONDS)
        if kind is None:
            assert not self._thread.is_alive(), f"step {self.steps} hangs"
            if self._failure:
                raise AssertionError(f"step {self.steps} failed") from self._failure


def fill(container: ContainerProxy, count: int) -> None:
    for number in range(count):
        container.create_item(numbered(number))


def numbers_in(container: ContainerProxy) -> list[int]:
    """The numbers of all items, in order, an item that comes twice also twice."""
    return sorted(item["number"] for item in container.read_all_items())


def eventually(condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)
