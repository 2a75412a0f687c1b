// What the service completes in a definition, refuses in a request, and sends beside a body.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { refused, scenario, withoutSystem } from "../harness.js";

const etagPath = { path: '/"_etag"/?' };
const ifMatch = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });
const create = (id, more = {}) => ({ operationType: "Create", resourceBody: { id, pk: "a", ...more } });

scenario("a definition is completed as the service does it", async (account) => {
  const indexingPolicy = { includedPaths: [{ path: "/" }], excludedPaths: [{ path: "/x/?" }], automatic: false };
  const { resource } = await (await account.container({ indexingPolicy })).read();
  assert.deepEqual(resource.indexingPolicy.excludedPaths, [{ path: "/x/?" }, etagPath]);
  assert.equal(resource.indexingPolicy.automatic, true);
  for (const path of ["/id ds", "/a/*", "/a[0]"]) {
    const error = await refused(400, () => account.container({ partitionKey: { paths: [path] } }));
    assert.match(error.message, /could not be accepted, failed near position/);
  }
});

scenario("a container of another version is not deleted", async (account) => {
  const container = await account.container();
  await refused(412, () => container.delete(ifMatch('"stale"')));
  const { resource } = await container.read();
  await refused(412, () => container.replace(resource, ifMatch('"stale"')));
  await container.delete(ifMatch(resource._etag));
  await refused(404, () => container.read());
});

scenario("another time to live applies to the items that are there", async (account) => {
  const container = await account.container();
  const { resource: item } = await container.items.create({ id: "1", pk: "a" });
  const { resource: about } = await container.read();
  const deadline = Date.now() + 10_000;
  while (Date.now() < (item._ts + 2) * 1000) {
    assert.ok(Date.now() < deadline);
    await sleep(100);
  }
  await container.replace({ ...about, defaultTtl: 1 });
  assert.equal((await container.item("1", "a").read()).statusCode, 404);
  await container.replace(about);
  assert.equal((await container.item("1", "a").read()).resource?._ts, item._ts, "nothing was swept");
  for (const ttl of [null, 0, 2147483648, 1.5, "1"]) {
    await refused(400, () => container.items.create({ id: "2", pk: "a", ttl }));
  }
});

scenario("a replace with another id renames the item", async (account) => {
  const container = await account.container();
  const { resource: first } = await container.items.create({ id: "1", pk: "a" });
  await container.items.create({ id: "taken", pk: "a" });
  await refused(409, () => container.item("1", "a").replace({ id: "taken", pk: "a" }));
  const { resource: renamed } = await container.item("1", "a").replace({ id: "2", pk: "a" });
  assert.deepEqual([renamed.id, renamed._rid], ["2", first._rid]);
  assert.equal((await container.item("1", "a").read()).statusCode, 404);
  const rename = (id, to) => ({ operationType: "Replace", id, resourceBody: { id: to, pk: "a" } });
  const { code } = await container.items.batch([rename("2", "3"), create("2")], "a");
  assert.equal(code, 200);
  const refusedBatch = await container.items.batch([rename("3", "taken")], "a");
  assert.deepEqual([refusedBatch.code, refusedBatch.result[0].statusCode], [207, 409]);
  const { resources } = await container.items.readAll().fetchAll();
  assert.deepEqual(resources.map(({ id }) => id).sort(), ["2", "3", "taken"]);
});

scenario("partition keys have at most two kibibytes", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "k".repeat(2048) });
  assert.equal((await container.item("1", "k".repeat(2048)).read()).resource?.id, "1");
  await refused(400, () => container.items.create({ id: "2", pk: "k".repeat(2049) }));
});

scenario("responses say where an item is and how long they took", async (account) => {
  const container = await account.container();
  const { resource } = await container.items.create({ id: "1", pk: "a" });
  const { headers } = await container.item("1", "a").read();
  assert.ok(headers["content-location"].endsWith(`/colls/${container.id}/docs/1`), headers["content-location"]);
  assert.ok(Number(headers["x-ms-request-duration-ms"]) >= 0);
  const known = { accessCondition: { type: "IfNoneMatch", condition: resource._etag } };
  const unchanged = await container.item("1", "a").read(known);
  assert.deepEqual([unchanged.statusCode, unchanged.headers.etag], [304, resource._etag]);
});

scenario("writes of databases and containers have session tokens", async (account) => {
  const { database, headers } = await account.client.databases.create({ id: account.name("db") });
  assert.ok(headers["x-ms-session-token"]);
  const created = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] } });
  assert.ok(created.headers["x-ms-session-token"]);
  await created.container.items.create({ id: "1", pk: "a" });
  assert.equal((await created.container.item("1", "a").read()).resource?.id, "1");
  await database.delete();
});

scenario("a part of a hierarchical key addresses no item", async (account) => {
  const partitionKey = { paths: ["/t", "/u"], kind: "MultiHash", version: 2 };
  const container = await account.container({ partitionKey });
  const { resource } = await container.items.create({ id: "1", t: "A", u: "B" });
  assert.deepEqual(withoutSystem(resource), { id: "1", t: "A", u: "B" });
  const error = await refused(400, () => container.item("1", ["A"]).read());
  assert.equal(error.substatus, 1001);
  // This SDK wraps the refusal of a batch in an error without a code.
  const batch = () => container.items.batch([{ operationType: "Read", id: "1" }], ["A"]);
  await assert.rejects(batch, /Partition key provided either doesn't correspond to definition in the collection/);
});

scenario("batches are refused in the words of the service", async (account) => {
  const container = await account.container();
  // More than a hundred operations this SDK refuses by itself.
  await assert.rejects(() => container.items.batch([], "a"), /Batch request has no operations\./);
  const large = ["1", "2", "3"].map((id) => create(id, { text: "x".repeat(1 << 20) }));
  await assert.rejects(() => container.items.batch(large, "a"), /Request size is too large/);
});
