"""Transactional batches."""

from azure.cosmos.exceptions import CosmosBatchOperationError

from harness import Account, refused, scenario, without_system


@scenario
def a_batch_of_every_operation_succeeds_as_a_whole(account: Account):
    container = account.container()
    for name in ("read", "replace", "patch", "delete"):
        container.create_item({"id": name, "pk": "a", "v": 1})
    results = container.execute_item_batch([
        ("create", ({"id": "create", "pk": "a"},)),
        ("upsert", ({"id": "upsert", "pk": "a"},)),
        ("read", ("read",)),
        ("replace", ("replace", {"id": "replace", "pk": "a", "v": 2})),
        ("patch", ("patch", [{"op": "incr", "path": "/v", "value": 2}])),
        ("delete", ("delete",)),
    ], partition_key="a")
    assert [result["statusCode"] for result in results] == [201, 201, 200, 200, 200, 204], results
    assert results[2]["resourceBody"]["v"] == 1 and results[4]["resourceBody"]["v"] == 3
    assert all(result["eTag"] for result in results[:5])
    ids = sorted(item["id"] for item in container.read_all_items())
    assert ids == ["create", "patch", "read", "replace", "upsert"]


@scenario
def a_failed_batch_leaves_nothing_behind(account: Account):
    container = account.container()
    container.create_item({"id": "there", "pk": "a"})
    try:
        container.execute_item_batch([
            ("create", ({"id": "new", "pk": "a"},)),
            ("create", ({"id": "there", "pk": "a"},)),
            ("upsert", ({"id": "later", "pk": "a"},)),
        ], partition_key="a")
        raise AssertionError("the batch should have failed")
    except CosmosBatchOperationError as error:
        assert error.error_index == 1 and error.status_code == 409
        statuses = [result["statusCode"] for result in error.operation_responses]
        assert statuses == [424, 409, 424], statuses
    assert [item["id"] for item in container.read_all_items()] == ["there"]


@scenario
def a_batch_honours_etags_and_conditions(account: Account):
    container = account.container()
    item = container.create_item({"id": "1", "pk": "a", "v": 1})
    body = {"id": "1", "pk": "a", "v": 2}
    container.execute_item_batch([("replace", ("1", body), {"if_match_etag": item["_etag"]})], "a")
    for operation in (
        ("replace", ("1", body), {"if_match_etag": item["_etag"]}),
        ("patch", ("1", [{"op": "set", "path": "/v", "value": 3}]), {"filter_predicate": "from c where c.v = 9"}),
    ):
        try:
            container.execute_item_batch([operation], "a")
            raise AssertionError("the batch should have failed")
        except CosmosBatchOperationError as error:
            assert error.status_code == 412, error
    assert without_system(container.read_item("1", "a")) == body


@scenario
def a_batch_of_more_than_a_hundred_operations_is_refused(account: Account):
    container = account.container()
    operations = [("create", ({"id": str(number), "pk": "a"},)) for number in range(101)]
    refused(400, container.execute_item_batch, operations, partition_key="a")
    assert len(container.execute_item_batch(operations[:100], partition_key="a")) == 100
