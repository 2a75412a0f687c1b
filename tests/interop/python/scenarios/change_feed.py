"""The change feed, pulled."""

from datetime import datetime, timedelta, timezone

from harness import Account, numbered, scenario


def changes(container, **options) -> tuple[list[str], str]:
    """The ids of the changes since a point, in order, and where to go on from."""
    ids = [item["id"] for item in container.query_items_change_feed(**options)]
    return ids, container.client_connection.last_response_headers["etag"]


@scenario
def the_change_feed_from_the_beginning_has_every_item_once(account: Account):
    container = account.filled(30)
    container.upsert_item({**numbered(3), "changed": True})
    container.delete_item("4", "key-4")
    ids, _ = changes(container, start_time="Beginning")
    assert sorted(ids, key=int) == [str(number) for number in range(30) if number != 4], ids


@scenario
def the_change_feed_goes_on_where_it_stopped(account: Account):
    container = account.filled(10)
    _, token = changes(container, start_time="Beginning")
    ids, token = changes(container, continuation=token)
    assert ids == [], ids
    container.create_item(numbered(10))
    container.upsert_item({**numbered(3), "changed": True})
    ids, token = changes(container, continuation=token)
    assert sorted(ids) == ["10", "3"], ids
    ids, _ = changes(container, continuation=token)
    assert ids == [], ids


@scenario
def the_change_feed_from_now_has_only_what_comes_later(account: Account):
    container = account.filled(10)
    ids, token = changes(container, start_time="Now")
    assert ids == [], ids
    container.create_item(numbered(10))
    ids, _ = changes(container, continuation=token)
    assert ids == ["10"], ids


@scenario
def the_change_feed_of_a_partition_key_has_only_its_items_in_order(account: Account):
    container = account.filled(30)
    container.upsert_item({**numbered(3), "changed": True})
    ids, token = changes(container, start_time="Beginning", partition_key="key-3")
    assert ids == ["13", "23", "3"], ids
    container.upsert_item({**numbered(4), "changed": True})
    container.upsert_item({**numbered(13), "changed": True})
    ids, _ = changes(container, continuation=token, partition_key="key-3")
    assert ids == ["13"], ids


@scenario
def the_change_feed_of_every_range_together_is_that_of_the_container(account: Account):
    container = account.filled(30)
    found = []
    for one in container.read_feed_ranges():
        ids, _ = changes(container, start_time="Beginning", feed_range=one)
        found += ids
    assert sorted(found, key=int) == [str(number) for number in range(30)]


@scenario
def the_change_feed_comes_in_pages(account: Account):
    container = account.filled(30)
    paged = container.query_items_change_feed(start_time="Beginning", max_item_count=4).by_page()
    sizes = [len(list(page)) for page in paged]
    assert sum(sizes) == 30 and max(sizes) <= 4, sizes


@scenario
def the_change_feed_starts_at_a_time(account: Account):
    container = account.filled(5)
    hour = timedelta(hours=1)
    ids, _ = changes(container, start_time=datetime.now(timezone.utc) - hour)
    assert sorted(ids) == ["0", "1", "2", "3", "4"], ids
    ids, _ = changes(container, start_time=datetime.now(timezone.utc) + hour)
    assert ids == [], ids
