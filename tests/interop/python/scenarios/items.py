"""Items: every operation on one of them, and on many at once."""

import time

from azure.core import MatchConditions
from azure.cosmos.exceptions import CosmosResourceExistsError, CosmosResourceNotFoundError

from harness import Account, numbered, refused, scenario, without_system


@scenario
def a_created_item_is_read_back_with_its_system_properties(account: Account):
    container = account.container()
    item = {"id": "1", "pk": "a", "text": "täglich 日本 🚀", "nested": {"list": [1, 2.5, None, True]}}
    created = container.create_item(item)
    assert without_system(created) == item
    assert all(created[name] for name in ("_rid", "_self", "_etag", "_ts")), created
    assert "_attachments" in created
    read = container.read_item("1", partition_key="a")
    assert read == created
    headers = container.client_connection.last_response_headers
    assert float(headers["x-ms-request-charge"]) > 0
    assert headers["etag"] == read["_etag"] and headers["x-ms-session-token"]


@scenario
def a_missing_item_is_not_found_and_a_second_one_conflicts(account: Account):
    container = account.container()
    container.create_item(numbered(1))
    error = refused(409, container.create_item, numbered(1))
    assert isinstance(error, CosmosResourceExistsError)
    error = refused(404, container.read_item, "nobody", partition_key="key-1")
    assert isinstance(error, CosmosResourceNotFoundError)
    refused(404, container.read_item, "1", partition_key="another key")
    refused(404, container.delete_item, "nobody", partition_key="key-1")
    refused(404, container.replace_item, "nobody", {"id": "nobody", "pk": "key-1"})


@scenario
def the_same_id_may_live_under_two_partition_keys(account: Account):
    container = account.container()
    for key in ("a", "b"):
        container.create_item({"id": "1", "pk": key})
    assert container.read_item("1", partition_key="b")["pk"] == "b"


@scenario
def partition_keys_of_every_type_find_their_items(account: Account):
    container = account.container()
    keys = ["text", "", 0, 1, -1.5, 1e300, True, False, None]
    for number, key in enumerate(keys):
        container.create_item({"id": str(number), "pk": key})
    for number, key in enumerate(keys):
        assert container.read_item(str(number), partition_key=key)["pk"] == key, key


@scenario
def an_item_without_a_partition_key_is_found_again(account: Account):
    from azure.cosmos.partition_key import NonePartitionKeyValue

    container = account.container()
    container.create_item({"id": "1"})
    assert container.read_item("1", partition_key=NonePartitionKeyValue)["id"] == "1"


@scenario
def ids_with_unusual_characters_are_found_again(account: Account):
    container = account.container()
    for name in ("with space", "ünïcödé", "percent%20sign", "plus+and=and@", "quote'\"", "dots.and,commas;"):
        container.create_item({"id": name, "pk": "a"})
        assert container.read_item(name, partition_key="a")["id"] == name
        container.replace_item(name, {"id": name, "pk": "a", "replaced": True})
        container.delete_item(name, partition_key="a")


@scenario
def an_id_is_made_up_when_asked_for(account: Account):
    created = account.container().create_item({"pk": "a"}, enable_automatic_id_generation=True)
    assert len(created["id"]) == 36


@scenario
def an_upsert_creates_and_then_replaces(account: Account):
    container = account.container()
    first = container.upsert_item({"id": "1", "pk": "a", "v": 1})
    second = container.upsert_item({"id": "1", "pk": "a", "v": 2})
    assert (first["v"], second["v"]) == (1, 2)
    assert first["_etag"] != second["_etag"] and first["_rid"] == second["_rid"]
    assert container.read_item("1", "a")["v"] == 2


@scenario
def a_replaced_item_is_the_new_one_whole(account: Account):
    container = account.container()
    container.create_item({"id": "1", "pk": "a", "old": True})
    replaced = container.replace_item("1", {"id": "1", "pk": "a", "new": True})
    assert without_system(replaced) == {"id": "1", "pk": "a", "new": True}
    assert without_system(container.read_item("1", "a")) == {"id": "1", "pk": "a", "new": True}


@scenario
def a_stale_etag_is_rejected(account: Account):
    container = account.container()
    first = container.create_item({"id": "1", "pk": "a", "v": 1})
    fresh = {"etag": first["_etag"], "match_condition": MatchConditions.IfNotModified}
    second = container.replace_item("1", {"id": "1", "pk": "a", "v": 2}, **fresh)
    refused(412, container.replace_item, "1", {"id": "1", "pk": "a", "v": 3}, **fresh)
    refused(412, container.upsert_item, {"id": "1", "pk": "a", "v": 3}, **fresh)
    refused(412, container.delete_item, "1", "a", **fresh)
    operations = [{"op": "set", "path": "/v", "value": 9}]
    refused(412, container.patch_item, "1", "a", operations, **fresh)
    assert container.read_item("1", "a")["v"] == 2
    container.delete_item("1", "a", etag=second["_etag"], match_condition=MatchConditions.IfNotModified)
    refused(404, container.read_item, "1", "a")


@scenario
def a_read_of_an_unchanged_item_says_so(account: Account):
    container = account.container()
    item = container.create_item({"id": "1", "pk": "a"})
    unchanged = {"etag": item["_etag"], "match_condition": MatchConditions.IfModified}
    assert dict(container.read_item("1", "a", **unchanged)) == {}
    container.upsert_item({"id": "1", "pk": "a", "v": 2})
    assert container.read_item("1", "a", **unchanged)["v"] == 2


@scenario
def a_patch_adds_sets_replaces_removes_increments_and_moves(account: Account):
    container = account.container()
    item = {"id": "1", "pk": "a", "count": 1, "list": [1, 3], "old": "x", "gone": 1, "deep": {"x": 1}}
    container.create_item(item)
    patched = container.patch_item("1", "a", [
        {"op": "add", "path": "/list/1", "value": 2},
        {"op": "add", "path": "/list/-", "value": 4},
        {"op": "set", "path": "/deep/y", "value": {"z": [True]}},
        {"op": "replace", "path": "/old", "value": "y"},
        {"op": "remove", "path": "/gone"},
        {"op": "incr", "path": "/count", "value": 5},
        {"op": "move", "from": "/deep/x", "path": "/moved"},
    ])
    expected = {"id": "1", "pk": "a", "count": 6, "list": [1, 2, 3, 4], "old": "y",
                "deep": {"y": {"z": [True]}}, "moved": 1}
    assert without_system(patched) == expected, patched
    assert without_system(container.read_item("1", "a")) == expected


@scenario
def a_patch_is_applied_only_where_its_condition_holds(account: Account):
    container = account.container()
    container.create_item({"id": "1", "pk": "a", "v": 1})
    operations = [{"op": "incr", "path": "/v", "value": 1}]
    patched = container.patch_item("1", "a", operations, filter_predicate="from c where c.v = 1")
    assert patched["v"] == 2
    refused(412, container.patch_item, "1", "a", operations, filter_predicate="from c where c.v = 1")
    assert container.read_item("1", "a")["v"] == 2


@scenario
def a_patch_that_cannot_be_applied_changes_nothing(account: Account):
    container = account.container()
    container.create_item({"id": "1", "pk": "a", "v": 1})
    operations = [{"op": "set", "path": "/v", "value": 2}, {"op": "remove", "path": "/missing"}]
    refused(400, container.patch_item, "1", "a", operations)
    refused(404, container.patch_item, "nobody", "a", operations)
    assert container.read_item("1", "a")["v"] == 1


@scenario
def a_deleted_item_is_gone(account: Account):
    container = account.filled(3)
    container.delete_item("1", partition_key="key-1")
    refused(404, container.read_item, "1", "key-1")
    assert sorted(item["id"] for item in container.read_all_items()) == ["0", "2"]


@scenario
def a_write_may_ask_for_no_body_in_return(account: Account):
    container = account.container()
    answer = container.create_item({"id": "1", "pk": "a"}, no_response=True)
    assert dict(answer) == {}, answer
    assert container.read_item("1", "a")["id"] == "1"


@scenario
def unique_keys_hold_within_a_partition_key(account: Account):
    container = account.container(unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]})
    container.create_item({"id": "1", "pk": "a", "email": "x"})
    refused(409, container.create_item, {"id": "2", "pk": "a", "email": "x"})
    container.create_item({"id": "2", "pk": "b", "email": "x"})


@scenario
def an_item_whose_time_is_over_is_gone(account: Account):
    container = account.container(default_ttl=-1)
    container.create_item({"id": "1", "pk": "a", "ttl": 1})
    container.create_item({"id": "2", "pk": "a"})
    deadline = time.monotonic() + 10
    while len(list(container.read_all_items())) > 1:
        assert time.monotonic() < deadline, "the item is still there"
        time.sleep(0.1)
    refused(404, container.read_item, "1", "a")


@scenario
def an_item_that_is_too_large_is_refused(account: Account):
    container = account.container()
    refused(413, container.create_item, {"id": "1", "pk": "a", "text": "x" * (2 << 20)})
    refused(413, container.create_item, {"id": "1", "pk": "a", "text": "x" * (5 << 20)})
    container.create_item({"id": "1", "pk": "a", "text": "x" * (1 << 20)})


@scenario
def many_items_are_read_at_once(account: Account):
    container = account.filled(30)
    wanted = [(str(number), f"key-{number % 10}") for number in range(0, 30, 2)]
    found = list(container.read_items(items=wanted + [("missing", "key-1")]))
    assert sorted(int(item["id"]) for item in found) == list(range(0, 30, 2))


@scenario
def all_items_are_read(account: Account):
    container = account.filled(30)
    found = list(container.read_all_items(max_item_count=7))
    assert sorted(int(item["id"]) for item in found) == list(range(30))


@scenario
def all_items_of_a_partition_key_are_deleted(account: Account):
    container = account.filled(30)
    container.delete_all_items_by_partition_key("key-3")
    left = [item["pk"] for item in container.read_all_items()]
    assert len(left) == 27 and "key-3" not in left
