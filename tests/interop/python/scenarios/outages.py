"""Outages: the account is broken under a client that goes on reading and writing."""

import time
from dataclasses import replace

from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from harness import numbered, scenario
from regional import EAST, NORTH, TIMEOUT_SECONDS, REGIONS, WEST
from regional import Laboratory, Load, RegionalAccount, eventually, fill, numbers_in

COUNT = 30


def read_one_and_find_it(container: ContainerProxy, step: int) -> None:
    """Reads an item, and every third time finds it by a query over all partitions."""
    number = step % COUNT
    assert container.read_item(str(number), f"key-{number % 10}")["number"] == number
    if step % 3 == 0:
        query = "SELECT VALUE c.number FROM c WHERE c.number >= @number ORDER BY c.number"
        parameters = [{"name": "@number", "value": number}]
        found = list(container.query_items(query, parameters=parameters, enable_cross_partition_query=True))
        assert found == list(range(number, COUNT)), found


def same_everywhere(account: RegionalAccount, expected: list[int]) -> None:
    """Asks each region for all items, until it has caught up."""
    for region in REGIONS:
        container = account.container(region)
        before = account.counted(region=region, operation="ReadFeed", status=200)
        eventually(lambda: numbers_in(container) == expected,
                   lambda: f"{region} has {numbers_in(container)} rather than {expected}")
        assert account.counted(region=region, operation="ReadFeed", status=200) > before, region


@scenario
def reads_go_on_while_their_region_refuses_connections(laboratory: Laboratory):
    with laboratory.account() as account:
        container = account.container(EAST, NORTH, WEST)
        fill(container, COUNT)
        with Load(lambda step: read_one_and_find_it(container, step)) as load:
            load.goes_on_until(lambda: account.counted(region=EAST, operation="Read", status=200) > 20)
            account.admin("POST", f"regions/{EAST}/offline")
            load.goes_on(5)
            closed = account.counted(region=EAST)
            load.goes_on(40)
            assert account.counted(region=EAST) == closed
            container.create_item({"id": "late", "pk": "key-0", "number": -1})
            account.admin("POST", f"regions/{EAST}/online")
            load.goes_on(40)
            # A client that found a region closed looks for it again five minutes later, and no setting makes
            # it look earlier; a client that comes now reads there at once.
            newcomer = account.container(EAST, NORTH, WEST)
            assert newcomer.read_item("late", "key-0")["number"] == -1
            assert account.counted(region=EAST) > closed


@scenario
def reads_go_on_while_their_region_answers_that_it_is_unavailable(laboratory: Laboratory):
    with laboratory.account() as account:
        container = account.container(EAST, NORTH, WEST)
        fill(container, COUNT)
        with Load(lambda step: read_one_and_find_it(container, step)) as load:
            load.goes_on_until(lambda: account.counted(region=EAST, operation="Read", status=200) > 20)
            # A 503 does not make the SDK leave the region: each read asks there first, and waits half a
            # second before it asks elsewhere.
            for operation in ("Read", "Query"):
                condition = {"region": EAST, "resource": "Document", "operation": operation}
                account.admin("POST", "faults", {"condition": condition, "effect": {"kind": "answer", "status": 503}})
            load.goes_on(4)
            for operation in ("Read", "Query"):
                assert account.counted(region=EAST, operation=operation, status=503) > 0, operation
            assert account.admin("DELETE", "faults")["removed"] == 2
            refused = account.counted(region=EAST, status=503)
            load.goes_on(10)
            assert account.counted(region=EAST, status=503) <= refused + 1


@scenario
def no_acknowledged_write_is_lost_when_the_write_region_changes_and_changes_back(laboratory: Laboratory):
    with laboratory.account() as account:
        container = account.container(WEST, EAST, NORTH)
        acknowledged = []

        def write_and_read(number: int) -> None:
            container.create_item(numbered(number))
            acknowledged.append(number)
            assert container.read_item(str(number), f"key-{number % 10}")["number"] == number

        with Load(write_and_read) as load:
            load.goes_on(20)
            for old, new in ((WEST, EAST), (EAST, WEST)):
                before = account.counted(region=new, operation="Create", status=201)
                account.change_write_region(new)
                load.goes_on_until(lambda: account.counted(region=new, operation="Create", status=201) > before + 20)
                assert account.counted(region=old, operation="Create", status=403, sub_status=3) > 0, old
        assert acknowledged == list(range(load.steps))
        same_everywhere(account, acknowledged)


def in_order(container: ContainerProxy) -> list[int]:
    """The numbers of all items by a query that asks every range by its id.

    The SDK follows a range to its halves when it is told that the range is gone (410/1002), which it has to
    learn on the range's first page, and of the last range: what it has of the others by then, or of earlier
    pages, it hands out a second time. That the range is splitting (410/1007) it leaves to the application.
    """
    query = "SELECT VALUE c.number FROM c ORDER BY c.number"
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return list(container.query_items(query, enable_cross_partition_query=True, max_item_count=1000))
        except CosmosHttpResponseError as error:
            if (error.status_code, error.sub_status) != (410, 1007) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@scenario
def every_item_is_found_exactly_once_while_the_ranges_split(laboratory: Laboratory):
    with laboratory.account(partitions=1) as account:
        container = account.container(EAST, NORTH, WEST)
        fill(container, COUNT)
        # Whoever writes learns of the halves from the session tokens, and with it all clients of an endpoint that
        # is spelled the same; this one only by asking.
        observer = replace(account, endpoint=account.endpoint.rstrip("/")).container(WEST)

        def write_read_and_query(number: int) -> None:
            container.create_item(numbered(number))
            assert container.read_item(str(number), f"key-{number % 10}")["number"] == number
            expected = list(range(number + 1))
            assert in_order(observer) == expected
            query = "SELECT VALUE c.number FROM c WHERE c.number >= 0"
            found = container.query_items(query, enable_cross_partition_query=True, max_item_count=7)
            assert sorted(found) == expected

        with Load(write_read_and_query, first=COUNT) as load:
            load.goes_on(5)
            last = "0"
            for takes_ms in (0, 2000, 0):
                _, last = account.split(last, takes_ms)
                load.goes_on(10)
        for sub_status in (1002, 1007):
            assert account.counted(status=410, sub_status=sub_status) > 0, sub_status
        assert len(list(container.read_feed_ranges(force_refresh=True))) == 4
        same_everywhere(account, list(range(load.steps)))
