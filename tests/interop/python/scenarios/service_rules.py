"""What the service completes in a definition, refuses in a request, and sends beside a body."""

import time

from azure.core import MatchConditions
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError

from harness import Account, refused, scenario, without_system

ETAG_PATH = {"path": '/"_etag"/?'}


def headers_of(container) -> dict[str, str]:
    """The headers of the response before."""
    return container.client_connection.last_response_headers


@scenario
def a_definition_is_completed_as_the_service_does_it(account: Account):
    policy = {"includedPaths": [{"path": "/"}], "excludedPaths": [{"path": "/x/?"}], "automatic": False}
    about = account.container(indexing_policy=policy).read()
    assert about["indexingPolicy"]["excludedPaths"] == [{"path": "/x/?"}, ETAG_PATH], about
    assert about["indexingPolicy"]["automatic"] is True
    plain = account.container().read()["indexingPolicy"]
    assert plain["includedPaths"] == [{"path": "/*"}] and plain["excludedPaths"] == [ETAG_PATH], plain


@scenario
def a_container_of_another_version_is_not_deleted(account: Account):
    container = account.container()
    stale = {"etag": '"stale"', "match_condition": MatchConditions.IfNotModified}
    refused(412, account.database.delete_container, container, **stale)
    refused(412, account.database.replace_container, container, PartitionKey(path="/pk"), **stale)
    fresh = {"etag": container.read()["_etag"], "match_condition": MatchConditions.IfNotModified}
    account.database.delete_container(container, **fresh)
    refused(404, container.read)


@scenario
def another_time_to_live_applies_to_the_items_that_are_there(account: Account):
    container = account.container()
    container.create_item({"id": "1", "pk": "a"})
    written = container.read_item("1", "a")["_ts"]
    deadline = time.monotonic() + 10
    while time.time() < written + 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    account.database.replace_container(container, PartitionKey(path="/pk"), default_ttl=1)
    refused(404, container.read_item, "1", "a")
    account.database.replace_container(container, PartitionKey(path="/pk"))
    assert container.read_item("1", "a")["_ts"] == written, "nothing was swept"
    for ttl in (None, 0, 2147483648, 1.5, "1"):
        refused(400, container.create_item, {"id": "2", "pk": "a", "ttl": ttl})


@scenario
def a_replace_with_another_id_renames_the_item(account: Account):
    container = account.container()
    first = container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "taken", "pk": "a"})
    refused(409, container.replace_item, "1", {"id": "taken", "pk": "a"})
    renamed = container.replace_item("1", {"id": "2", "pk": "a", "v": 1})
    assert (renamed["id"], renamed["_rid"]) == ("2", first["_rid"])
    refused(404, container.read_item, "1", "a")
    container.execute_item_batch([
        ("replace", ("2", {"id": "3", "pk": "a"})),
        ("create", ({"id": "2", "pk": "a"},)),
    ], partition_key="a")
    ids = sorted(item["id"] for item in container.read_all_items())
    assert ids == ["2", "3", "taken"], ids
    try:
        container.execute_item_batch([("replace", ("3", {"id": "taken", "pk": "a"}))], partition_key="a")
        raise AssertionError("the batch should have failed")
    except CosmosBatchOperationError as error:
        assert error.status_code == 409, error


@scenario
def partition_keys_have_at_most_two_kibibytes(account: Account):
    container = account.container()
    container.create_item({"id": "1", "pk": "k" * 2048})
    assert container.read_item("1", partition_key="k" * 2048)["id"] == "1"
    refused(400, container.create_item, {"id": "2", "pk": "k" * 2049})


@scenario
def responses_say_where_an_item_is_and_how_long_they_took(account: Account):
    container = account.container()
    item = container.create_item({"id": "1", "pk": "a"})
    container.read_item("1", "a")
    headers = headers_of(container)
    assert headers["content-location"].rstrip("/").endswith(f"/colls/{container.id}/docs/1"), headers
    assert float(headers["x-ms-request-duration-ms"]) >= 0
    known = {"etag": item["_etag"], "match_condition": MatchConditions.IfModified}
    assert dict(container.read_item("1", "a", **known)) == {}
    assert headers_of(container)["etag"] == item["_etag"], headers_of(container)


@scenario
def writes_of_databases_and_containers_have_session_tokens(account: Account):
    seen = []
    hook = lambda headers, *_: seen.append(headers.get("x-ms-session-token"))
    name = account.name("db")
    database = account.client.create_database(name, response_hook=hook)
    container = database.create_container("c", PartitionKey(path="/pk"), response_hook=hook)
    assert len(seen) == 2 and all(seen), seen
    # The SDK keeps them; they must not keep it from reading.
    container.create_item({"id": "1", "pk": "a"})
    assert container.read_item("1", "a")["id"] == "1"
    account.client.delete_database(name)


@scenario
def a_part_of_a_hierarchical_key_addresses_no_item(account: Account):
    container = account.container(PartitionKey(path=["/t", "/u"], kind="MultiHash"))
    item = container.create_item({"id": "1", "t": "A", "u": "B"})
    assert without_system(item) == {"id": "1", "t": "A", "u": "B"}
    error = refused(400, container.read_item, "1", partition_key=["A"])
    assert error.sub_status == 1001, error
    error = refused(400, container.execute_item_batch, [("read", ("1",))], partition_key=["A"])
    assert error.sub_status == 1001, error


@scenario
def batches_are_refused_in_the_words_of_the_service(account: Account):
    container = account.container()
    error = refused(400, container.execute_item_batch, [], partition_key="a")
    assert "Batch request has no operations." in error.message, error.message
    operations = [("create", ({"id": str(number), "pk": "a"},)) for number in range(101)]
    error = refused(400, container.execute_item_batch, operations, partition_key="a")
    assert "Batch request has more operations than what is supported." in error.message, error.message
    large = [("create", ({"id": str(number), "pk": "a", "text": "x" * (1 << 20)},)) for number in range(3)]
    error = refused(413, container.execute_item_batch, large, partition_key="a")
    assert "Request size is too large" in error.message, error.message
