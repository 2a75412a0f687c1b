"""Pages and continuations."""

import json

from harness import Account, refused, scenario


def pages(container, query: str, size: int, token=None, **options) -> list[list]:
    paged = container.query_items(query, max_item_count=size, **options)
    return [list(page) for page in paged.by_page(token)]


@scenario
def a_query_within_a_partition_key_comes_in_pages(account: Account):
    container = account.container()
    for number in range(11):
        container.create_item({"id": str(number), "pk": "a", "number": number})
    found = pages(container, "SELECT VALUE c.number FROM c ORDER BY c.number", 4, partition_key="a")
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]], found


@scenario
def a_query_goes_on_from_the_continuation_of_a_page(account: Account):
    container = account.container()
    for number in range(11):
        container.create_item({"id": str(number), "pk": "a", "number": number})
    paged = container.query_items("SELECT VALUE c.number FROM c", partition_key="a", max_item_count=4).by_page()
    first = list(next(paged))
    token = paged.continuation_token
    assert token
    rest = [value for page in pages(container, "SELECT VALUE c.number FROM c", 4, token, partition_key="a") for value in page]
    assert len(first) == 4 and sorted(first + rest) == list(range(11)), (first, rest)


@scenario
def a_query_across_partition_keys_goes_on_from_a_continuation(account: Account):
    container = account.filled(30)
    query = "SELECT VALUE c.number FROM c WHERE c.number < 25"
    seen, token = [], None
    for _ in range(40):
        paged = container.query_items(query, enable_cross_partition_query=True, max_item_count=4).by_page(token)
        seen += list(next(paged, []))
        token = paged.continuation_token
        if not token:
            break
    assert sorted(seen) == list(range(25)), seen


@scenario
def a_sorted_query_across_partition_keys_comes_in_pages(account: Account):
    container = account.filled(30)
    found = pages(container, "SELECT VALUE c.number FROM c ORDER BY c.number", 7, enable_cross_partition_query=True)
    assert [value for page in found for value in page] == list(range(30))
    assert all(len(page) <= 7 for page in found), found


@scenario
def a_page_that_ends_with_the_last_item_is_the_last_one(account: Account):
    container = account.container()
    for number in range(6):
        container.create_item({"id": str(number), "pk": "a", "number": number})
    paged = container.query_items("SELECT VALUE c.number FROM c", partition_key="a", max_item_count=3).by_page()
    assert [list(next(paged)), list(next(paged))] == [[0, 1, 2], [3, 4, 5]]
    assert paged.continuation_token is None
    assert list(paged) == []
    read = [list(page) for page in container.read_all_items(max_item_count=6).by_page()]
    assert [len(page) for page in read if page] == [6], read


@scenario
def a_continuation_is_json_and_junk_is_refused(account: Account):
    container = account.filled(12)
    paged = container.query_items("SELECT * FROM c", enable_cross_partition_query=True, max_item_count=5).by_page()
    next(paged)
    [token] = json.loads(paged.continuation_token)
    assert token["token"].startswith("-RID:~") and "#RT:1#TRC:" in token["token"], token
    assert set(token["range"]) == {"min", "max"}, token
    error = refused(400, pages, container, "SELECT * FROM c", 5, "junk", enable_cross_partition_query=True)
    assert "Invalid Continuation Token" in error.message, error.message


@scenario
def large_results_come_in_pages_without_being_asked_for(account: Account):
    container = account.container()
    for number in range(6):
        container.create_item({"id": str(number), "pk": "a", "text": "x" * (1 << 20)})
    found = pages(container, "SELECT * FROM c", 100, partition_key="a")
    assert len(found) > 1 and sum(len(page) for page in found) == 6, [len(page) for page in found]
