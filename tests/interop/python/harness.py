"""Scenarios and their run: each one is a function whose name is the sentence it proves."""

import itertools
import json
import os
import time
import traceback
from dataclasses import dataclass
from typing import Any, Callable

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

_scenarios: list[Callable] = []


def scenario(function: Callable) -> Callable:
    """Registers a scenario; it is called with an `Account`."""
    _scenarios.append(function)
    return function


@dataclass
class Account:
    """The account under test and what the scenarios need of it."""

    endpoint: str
    key: str
    partitions: int

    def __post_init__(self) -> None:
        self.client = CosmosClient(self.endpoint, credential=self.key)
        self.database = self.client.create_database_if_not_exists("interop-python")
        self._numbers = itertools.count(1)

    def name(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}-{time.time_ns()}"

    def container(self, partition_key: Any = "/pk", **options: Any):
        """A container of the scenario's own."""
        if isinstance(partition_key, str):
            partition_key = PartitionKey(path=partition_key)
        return self.database.create_container(self.name("c"), partition_key, **options)

    def filled(self, count: int = 30, **options: Any):
        """A container with items `0` to `count - 1`, spread over ten partition keys."""
        container = self.container(**options)
        for number in range(count):
            container.create_item(numbered(number))
        return container


def numbered(number: int) -> dict[str, Any]:
    """The item that the queries are written for."""
    return {
        "id": str(number),
        "pk": f"key-{number % 10}",
        "number": number,
        "parity": "even" if number % 2 == 0 else "odd",
        "tens": number // 10,
        "tags": [f"t{number % 3}", "all"],
    }


def refused(status: int, call: Callable, *arguments: Any, **options: Any) -> CosmosHttpResponseError:
    """Makes a call that must be refused with a status, and returns the refusal."""
    try:
        call(*arguments, **options)
    except CosmosHttpResponseError as error:
        assert error.status_code == status, f"expected {status}, got {error.status_code}: {error.message}"
        return error
    raise AssertionError(f"expected {status}, got an answer")


def without_system(item: dict[str, Any]) -> dict[str, Any]:
    """An item as its writer wrote it."""
    return {name: value for name, value in item.items() if not name.startswith("_")}


def run(account: Account, wanted: str) -> int:
    """Runs every scenario whose sentence contains `wanted`, and returns how many failed."""
    failed = 0
    named = [(function.__name__.replace("_", " "), function) for function in _scenarios]
    left_out = json.loads(os.environ.get("INTEROP_LEFT_OUT", "[]"))
    chosen = [(sentence, function) for sentence, function in named if wanted in sentence and sentence not in left_out]
    for sentence, function in chosen:
        try:
            function(account)
            print(f"  ok      {sentence}", flush=True)
        except Exception:  # Whatever goes wrong in a scenario is that scenario's failure.
            failed += 1
            print(f"  FAILED  {sentence}\n{traceback.format_exc()}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed", flush=True)
    return failed
