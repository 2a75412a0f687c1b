"""Connecting, databases, containers, throughput."""

import base64
import time

from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey, ThroughputProperties

from harness import Account, numbered, refused, scenario


@scenario
def the_account_says_its_regions_and_consistency(account: Account):
    about = account.client.get_database_account()
    assert len(about.WritableLocations) == 1 and len(about.ReadableLocations) == 1
    assert about.ConsistencyPolicy["defaultConsistencyLevel"] == "Session"
    # The advertised endpoint has the scheme and host that this client used.
    advertised = about.WritableLocations[0]["databaseAccountEndpoint"]
    assert advertised.rstrip("/") == account.endpoint.rstrip("/"), advertised


@scenario
def a_wrong_key_is_refused(account: Account):
    refused(401, CosmosClient, account.endpoint, credential="d3Jvbmc=")


class EmulatorCredential:
    """An Entra credential for an emulator: a token with a key in the place of its signature."""

    def __init__(self, key: str):
        encode = lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        self.token = ".".join([encode('{"typ":"JWT","alg":"RS256"}'), encode('{"aud":"https://localhost"}'), encode(key)])

    def get_token(self, *_scopes, **_options) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)


@scenario
def an_entra_token_with_the_accounts_key_is_accepted(account: Account):
    if account.endpoint.startswith("http:"):
        return  # This SDK sends no token in cleartext.
    client = CosmosClient(account.endpoint, credential=EmulatorCredential(account.key))
    container = client.get_database_client(account.database.id).get_container_client(account.container().id)
    container.create_item({"id": "1", "pk": "a"})
    assert [item["id"] for item in container.query_items("SELECT * FROM c", partition_key="a")] == ["1"]
    refused(401, CosmosClient, account.endpoint, credential=EmulatorCredential("d3Jvbmc="))


@scenario
def databases_are_created_listed_queried_and_deleted(account: Account):
    name = account.name("db")
    database = account.client.create_database(name)
    assert database.read()["id"] == name
    refused(409, account.client.create_database, name)
    assert name in [found["id"] for found in account.client.list_databases()]
    query = "SELECT * FROM root r WHERE r.id = @id"
    parameters = [{"name": "@id", "value": name}]
    found = list(account.client.query_databases(query, parameters=parameters))
    assert [one["id"] for one in found] == [name]
    account.client.delete_database(name)
    refused(404, database.read)


@scenario
def containers_are_created_listed_replaced_and_deleted(account: Account):
    name = account.name("c")
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/x/?"}]}
    container = account.database.create_container(name, PartitionKey(path="/pk"), indexing_policy=policy)
    about = container.read()
    assert about["partitionKey"]["paths"] == ["/pk"] and about["_rid"] and about["_self"]
    assert {"path": "/x/?"} in about["indexingPolicy"]["excludedPaths"]
    refused(409, account.database.create_container, name, PartitionKey(path="/pk"))
    assert name in [found["id"] for found in account.database.list_containers()]
    found = list(account.database.query_containers(f"SELECT * FROM c WHERE c.id = '{name}'"))
    assert [one["id"] for one in found] == [name]
    account.database.replace_container(container, PartitionKey(path="/pk"), default_ttl=60)
    assert container.read()["defaultTtl"] == 60
    account.database.delete_container(container)
    refused(404, container.read)


@scenario
def a_container_has_as_many_ranges_as_it_was_given_partitions(account: Account):
    container = account.filled(50)
    ranges = list(container.read_feed_ranges())
    assert len(ranges) == account.partitions, ranges
    counts = [len(list(container.query_items("SELECT * FROM c", feed_range=one))) for one in ranges]
    assert sum(counts) == 50, counts
    assert account.partitions == 1 or sum(count > 0 for count in counts) > 1, counts


@scenario
def manual_throughput_is_read_and_replaced(account: Account):
    container = account.container(offer_throughput=500)
    assert container.get_throughput().offer_throughput == 500
    assert container.replace_throughput(900).offer_throughput == 900
    assert container.get_throughput().offer_throughput == 900


@scenario
def autoscale_throughput_is_read_and_replaced(account: Account):
    container = account.container(offer_throughput=ThroughputProperties(auto_scale_max_throughput=4000))
    assert container.get_throughput().auto_scale_max_throughput == 4000
    container.replace_throughput(ThroughputProperties(auto_scale_max_throughput=5000))
    assert container.get_throughput().auto_scale_max_throughput == 5000


@scenario
def throughput_of_a_database_is_read_and_replaced(account: Account):
    database = account.client.create_database(account.name("db"), offer_throughput=400)
    assert database.get_throughput().offer_throughput == 400
    database.replace_throughput(800)
    assert database.get_throughput().offer_throughput == 800
    account.client.delete_database(database)


@scenario
def an_unknown_container_and_database_are_not_found(account: Account):
    missing = account.database.get_container_client("missing")
    refused(404, missing.read)
    refused(404, missing.create_item, numbered(1))
    refused(404, account.client.get_database_client("missing").read)
