"""Queries within one partition key and across all of them."""

from harness import Account, numbered, refused, scenario

ITEMS = [numbered(number) for number in range(30)]


def across(container, query: str, **options) -> list:
    return list(container.query_items(query, enable_cross_partition_query=True, **options))


def within(container, query: str, key: str = "key-3", **options) -> list:
    return list(container.query_items(query, partition_key=key, **options))


@scenario
def a_query_within_a_partition_key_sees_only_its_items(account: Account):
    container = account.filled()
    assert sorted(item["number"] for item in within(container, "SELECT * FROM c")) == [3, 13, 23]
    assert within(container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC") == [23, 13, 3]
    assert within(container, "SELECT TOP 1 c.id FROM c ORDER BY c.number") == [{"id": "3"}]
    assert within(container, "SELECT VALUE c.id FROM c ORDER BY c.number OFFSET 1 LIMIT 1") == ["13"]


@scenario
def aggregates_within_a_partition_key_are_those_of_all_its_items(account: Account):
    container = account.filled()
    assert within(container, "SELECT VALUE COUNT(1) FROM c WHERE c.tens > 0") == [2]
    assert within(container, "SELECT VALUE MAX(c.number) FROM c") == [23]
    assert within(container, "SELECT DISTINCT VALUE c.pk FROM c") == ["key-3"]


@scenario
def a_filter_across_partition_keys_finds_its_items(account: Account):
    container = account.filled()
    found = across(container, "SELECT * FROM c WHERE c.number >= 10 AND c.parity = 'even'")
    assert sorted(item["number"] for item in found) == list(range(10, 30, 2))
    found = across(container, "SELECT c.id, c.number FROM c WHERE c.pk = 'key-4'")
    assert sorted(item["id"] for item in found) == ["14", "24", "4"]
    found = across(container, "SELECT VALUE c.number FROM c WHERE c.number IN (1, 2, 99) OR STARTSWITH(c.id, '29')")
    assert sorted(found) == [1, 2, 29]
    found = across(container, "SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE t = 't2' AND c.number < 9")
    assert sorted(found) == ["2", "5", "8"]


@scenario
def parameters_of_every_type_reach_the_query(account: Account):
    container = account.filled()
    query = "SELECT VALUE c.number FROM c WHERE c.parity = @parity AND c.number < @limit AND ARRAY_CONTAINS(@tens, c.tens)"
    parameters = [{"name": "@parity", "value": "odd"}, {"name": "@limit", "value": 25},
                  {"name": "@tens", "value": [0, 2]}]
    found = across(container, query, parameters=parameters)
    assert sorted(found) == [1, 3, 5, 7, 9, 21, 23], found
    found = across(container, "SELECT VALUE c.id FROM c WHERE c.missing = @null", parameters=[{"name": "@null", "value": None}])
    assert found == []


@scenario
def results_across_partition_keys_come_in_order(account: Account):
    container = account.filled()
    assert across(container, "SELECT VALUE c.number FROM c ORDER BY c.number") == list(range(30))
    assert across(container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC") == list(range(29, -1, -1))
    found = across(container, "SELECT c.id FROM c WHERE c.parity = 'odd' ORDER BY c.id")
    assert [item["id"] for item in found] == sorted(item["id"] for item in ITEMS if item["parity"] == "odd")


@scenario
def results_come_in_the_order_of_several_keys_where_a_composite_index_allows_it(account: Account):
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [],
              "compositeIndexes": [[{"path": "/parity", "order": "ascending"}, {"path": "/number", "order": "descending"}]]}
    container = account.filled(indexing_policy=policy)
    found = across(container, "SELECT VALUE c.number FROM c ORDER BY c.parity ASC, c.number DESC")
    assert found == list(range(28, -1, -2)) + list(range(29, 0, -2)), found
    query = "SELECT * FROM c ORDER BY c.parity ASC, c.number ASC"
    refused(400, across, container, query)


@scenario
def an_order_by_on_an_excluded_path_is_refused(account: Account):
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/number/?"}]}
    container = account.filled(3, indexing_policy=policy)
    refused(400, across, container, "SELECT * FROM c ORDER BY c.number")


@scenario
def aggregates_across_partition_keys_are_those_of_all_items(account: Account):
    container = account.filled()
    numbers = [item["number"] for item in ITEMS]
    for expression, expected in (
        ("COUNT(1)", 30), ("SUM(c.number)", sum(numbers)), ("AVG(c.number)", sum(numbers) / 30),
        ("MIN(c.number)", 0), ("MAX(c.number)", 29), ("MAX(c.id)", "9"),
    ):
        found = across(container, f"SELECT VALUE {expression} FROM c")
        assert found == [expected], (expression, found)
    found = across(container, "SELECT VALUE COUNT(1) FROM c WHERE c.parity = 'nobody'")
    assert found == [0], found


@scenario
def an_aggregate_with_an_order_is_one_row(account: Account):
    container = account.filled()
    assert across(container, "SELECT VALUE COUNT(c.number) FROM c ORDER BY c.number") == [30]
    assert across(container, "SELECT VALUE MAX(c.number) FROM c ORDER BY c.parity, c.number DESC") == [29]
    groups = "SELECT c.tens, COUNT(1) AS n FROM c GROUP BY c.tens ORDER BY c.tens DESC"
    assert within(container, groups) == [{"tens": 2, "n": 1}, {"tens": 1, "n": 1}, {"tens": 0, "n": 1}]


@scenario
def values_of_different_types_are_unequal(account: Account):
    container = account.container()
    for name, value in (("null", None), ("text", "t"), ("number", 7), ("flag", True)):
        container.create_item({"id": name, "pk": name, "value": value, "lastName": value})
    container.create_item({"id": "missing", "pk": "missing"})
    for condition, expected in (
        ("c.lastName != null", ["flag", "number", "text"]),
        ("NOT (c.lastName = null)", ["flag", "number", "text"]),
        ("c.lastName != 't'", ["flag", "null", "number"]),
        ("(c.lastName != null ? c.lastName : 'ZZ') = 'ZZ'", ["missing", "null"]),
        ("c.lastName < 't'", []),
    ):
        found = across(container, f"SELECT VALUE c.id FROM c WHERE {condition}")
        assert sorted(found) == expected, (condition, found)
    refused(400, across, container, "SELECT c.value FROM c")
    assert across(container, "SELECT VALUE c['value'] FROM c WHERE c.id = 'number'") == [7]


@scenario
def distinct_values_are_distinct_across_partition_keys(account: Account):
    container = account.filled()
    assert sorted(across(container, "SELECT DISTINCT VALUE c.parity FROM c")) == ["even", "odd"]
    found = across(container, "SELECT DISTINCT c.parity, c.tens FROM c")
    assert len(found) == 6, found
    assert across(container, "SELECT DISTINCT VALUE c.tens FROM c ORDER BY c.tens DESC") == [2, 1, 0]


@scenario
def top_and_offset_limit_count_across_partition_keys(account: Account):
    container = account.filled()
    assert across(container, "SELECT TOP 4 VALUE c.number FROM c ORDER BY c.number DESC") == [29, 28, 27, 26]
    assert len(across(container, "SELECT TOP 12 * FROM c")) == 12
    assert across(container, "SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 10 LIMIT 5") == list(range(10, 15))
    assert len(across(container, "SELECT * FROM c OFFSET 25 LIMIT 10")) == 5


@scenario
def a_group_by_across_partition_keys_is_refused_since_this_sdk_cannot_do_it(account: Account):
    container = account.filled()
    query = "SELECT c.parity, COUNT(1) AS n FROM c GROUP BY c.parity"
    refused(400, across, container, query)
    assert within(container, query) == [{"parity": "odd", "n": 3}]


@scenario
def a_query_across_partition_keys_has_to_be_allowed(account: Account):
    container = account.filled(10)
    refused(400, lambda: list(container.query_items("SELECT * FROM c")))


@scenario
def a_query_that_is_not_one_is_refused(account: Account):
    container = account.filled(3)
    error = refused(400, across, container, "SELEC * FROM c")
    assert "SELEC" in error.message or "yntax" in error.message, error.message


@scenario
def metrics_of_a_query_are_told_when_asked_for(account: Account):
    container = account.filled(5)
    list(container.query_items("SELECT * FROM c", partition_key="key-1", populate_query_metrics=True,
                               populate_index_metrics=True))
    headers = container.client_connection.last_response_headers
    assert "x-ms-documentdb-query-metrics" in headers, dict(headers)
    assert float(headers["x-ms-request-charge"]) > 0
