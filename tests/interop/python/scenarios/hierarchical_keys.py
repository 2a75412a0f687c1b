"""Partition keys of several levels."""

from azure.cosmos import PartitionKey

from harness import Account, refused, scenario

USERS = [("tenant-1", "anna"), ("tenant-1", "ben"), ("tenant-2", "anna"), ("tenant-3", "cleo")]


def filled(account: Account):
    container = account.container(PartitionKey(path=["/tenant", "/user", "/session"], kind="MultiHash"))
    for tenant, user in USERS:
        for session in range(3):
            item = {"id": f"{tenant}.{user}.{session}", "tenant": tenant, "user": user, "session": session}
            container.create_item(item)
    return container


@scenario
def items_under_hierarchical_keys_are_read_replaced_patched_and_deleted(account: Account):
    container = filled(account)
    name, key = "tenant-1.ben.2", ["tenant-1", "ben", 2]
    item = container.read_item(name, partition_key=key)
    assert item["user"] == "ben"
    item["note"] = "replaced"
    assert container.replace_item(name, item)["note"] == "replaced"
    patched = container.patch_item(name, key, [{"op": "set", "path": "/note", "value": "patched"}])
    assert patched["note"] == "patched"
    container.delete_item(name, partition_key=key)
    refused(404, container.read_item, name, partition_key=key)


@scenario
def a_query_by_a_prefix_of_the_key_sees_what_is_under_it(account: Account):
    container = filled(account)
    for prefix, count in ((["tenant-1"], 6), (["tenant-1", "anna"], 3), (["tenant-3"], 3), (["nobody"], 0)):
        found = list(container.query_items("SELECT * FROM c", partition_key=prefix))
        assert len(found) == count, (prefix, len(found))
        assert all(item["tenant"] == prefix[0] for item in found)
    found = list(container.query_items("SELECT * FROM c", partition_key=["tenant-1", "anna", 1]))
    assert [item["id"] for item in found] == ["tenant-1.anna.1"]


@scenario
def a_sorted_query_by_a_prefix_comes_in_order(account: Account):
    container = filled(account)
    query = "SELECT VALUE c.id FROM c ORDER BY c.id DESC"
    found = list(container.query_items(query, partition_key=["tenant-1"]))
    assert found == sorted((f"tenant-1.{user}.{n}" for user in ("anna", "ben") for n in range(3)), reverse=True)


@scenario
def a_query_across_hierarchical_keys_finds_its_items(account: Account):
    container = filled(account)
    query = "SELECT VALUE COUNT(1) FROM c WHERE c.user = 'anna'"
    assert list(container.query_items(query, enable_cross_partition_query=True)) == [6]


@scenario
def a_batch_under_a_hierarchical_key_succeeds(account: Account):
    container = filled(account)
    body = {"id": "new", "tenant": "tenant-9", "user": "dora", "session": 1}
    results = container.execute_item_batch([("create", (body,))], partition_key=["tenant-9", "dora", 1])
    assert results[0]["statusCode"] == 201
    assert container.read_item("new", partition_key=["tenant-9", "dora", 1])["user"] == "dora"


@scenario
def many_items_under_hierarchical_keys_are_read_at_once(account: Account):
    container = filled(account)
    wanted = [(f"{tenant}.{user}.1", [tenant, user, 1]) for tenant, user in USERS]
    assert len(list(container.read_items(items=wanted))) == 4
