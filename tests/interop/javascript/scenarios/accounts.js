// Connecting, databases, containers, throughput.

import assert from "node:assert/strict";
import { CosmosClient } from "@azure/cosmos";
import { numbered, refused, scenario } from "../harness.js";

scenario("the account says its regions and consistency", async (account) => {
  const { resource } = await account.client.getDatabaseAccount();
  assert.equal(resource.consistencyPolicy, "Session");
  assert.equal(resource.writableLocations.length, 1);
  // The advertised endpoint has the scheme and host that this client used.
  const advertised = new URL(resource.writableLocations[0].databaseAccountEndpoint);
  assert.equal(advertised.origin, new URL(account.endpoint).origin);
});

scenario("a wrong key is refused", async (account) => {
  const client = new CosmosClient({ endpoint: account.endpoint, key: "d3Jvbmc=" });
  await refused(401, () => client.getDatabaseAccount());
  client.dispose();
});

/** An Entra credential for an emulator: a token with a key in the place of its signature. */
const emulatorCredential = (key) => {
  const segments = ['{"typ":"JWT","alg":"RS256"}', '{"aud":"https://localhost"}', key];
  const token = segments.map((text) => Buffer.from(text).toString("base64url")).join(".");
  return { getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3_600_000 }) };
};

scenario("an Entra token with the account's key is accepted", async (account) => {
  if (account.endpoint.startsWith("http:")) return; // This SDK sends no token in cleartext.
  const connect = (key) => new CosmosClient({ endpoint: account.endpoint, aadCredentials: emulatorCredential(key) });
  const client = connect(account.key);
  const { id } = await account.container();
  const container = client.database(account.database.id).container(id);
  await container.items.create({ id: "1", pk: "a" });
  assert.equal((await container.item("1", "a").read()).resource.id, "1");
  client.dispose();
  const wrong = connect("d3Jvbmc=");
  await refused(401, () => wrong.getDatabaseAccount());
  wrong.dispose();
});

scenario("databases are created, listed, queried and deleted", async (account) => {
  const id = account.name("db");
  const { database } = await account.client.databases.create({ id });
  assert.equal((await database.read()).resource.id, id);
  await refused(409, () => account.client.databases.create({ id }));
  const { resources: all } = await account.client.databases.readAll().fetchAll();
  assert.ok(all.some((found) => found.id === id));
  const query = { query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: id }] };
  const { resources: found } = await account.client.databases.query(query).fetchAll();
  assert.deepEqual(found.map((one) => one.id), [id]);
  await database.delete();
  await refused(404, () => database.read());
});

scenario("containers are created, listed, replaced and deleted", async (account) => {
  const indexingPolicy = { indexingMode: "consistent", includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/x/?" }] };
  const container = await account.container({ indexingPolicy });
  const { resource } = await container.read();
  assert.deepEqual(resource.partitionKey.paths, ["/pk"]);
  assert.ok(resource.indexingPolicy.excludedPaths.some(({ path }) => path === "/x/?"));
  await refused(409, () => account.database.containers.create({ id: container.id, partitionKey: { paths: ["/pk"] } }));
  const { resources: all } = await account.database.containers.readAll().fetchAll();
  assert.ok(all.some((found) => found.id === container.id));
  await container.replace({ id: container.id, partitionKey: resource.partitionKey, defaultTtl: 60 });
  assert.equal((await container.read()).resource.defaultTtl, 60);
  await container.delete();
  await refused(404, () => container.read());
});

scenario("a container has as many ranges as it was given partitions", async (account) => {
  const container = await account.filled(5);
  const { resources } = await container.readPartitionKeyRanges().fetchAll();
  assert.equal(resources.length, account.partitions);
  assert.equal(resources[0].minInclusive, "");
  assert.equal(resources.at(-1).maxExclusive, "FF");
  assert.equal((await container.getFeedRanges()).length, account.partitions);
});

scenario("manual throughput is read and replaced", async (account) => {
  const container = await account.container({}, { offerThroughput: 500 });
  const { resource, offer } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 500);
  await offer.replace({ ...resource, content: { ...resource.content, offerThroughput: 900 } });
  assert.equal((await container.readOffer()).resource.content.offerThroughput, 900);
});

scenario("autoscale throughput is read and replaced", async (account) => {
  const container = await account.container({ maxThroughput: 4000 });
  const { resource, offer } = await container.readOffer();
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 4000);
  const content = { ...resource.content, offerAutopilotSettings: { maxThroughput: 5000 } };
  await offer.replace({ ...resource, content });
  assert.equal((await container.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 5000);
});

scenario("throughput of a database is read", async (account) => {
  const { database } = await account.client.databases.create({ id: account.name("db"), throughput: 400 });
  assert.equal((await database.readOffer()).resource.content.offerThroughput, 400);
  await database.delete();
});

scenario("an unknown container and database are not found", async (account) => {
  await refused(404, () => account.database.container("missing").read());
  await refused(404, () => account.database.container("missing").items.create(numbered(1)));
  await refused(404, () => account.client.database("missing").read());
});

scenario("a client with session consistency reads its own writes", async (account) => {
  const client = new CosmosClient({ endpoint: account.endpoint, key: account.key, consistencyLevel: "Session" });
  const { id } = await account.container();
  const container = client.database(account.database.id).container(id);
  await container.items.create({ id: "1", pk: "a", v: 1 });
  await container.item("1", "a").replace({ id: "1", pk: "a", v: 2 });
  const { resource, headers } = await container.item("1", "a").read();
  assert.equal(resource.v, 2);
  assert.ok(headers["x-ms-session-token"]);
  client.dispose();
});
