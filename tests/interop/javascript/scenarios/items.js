// Items: every operation on one of them, and on many at once.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { ascending, range, refused, scenario, withoutSystem } from "../harness.js";

const ifMatch = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });

scenario("a created item is read back with its system properties", async (account) => {
  const container = await account.container();
  const item = { id: "1", pk: "a", text: "täglich 日本 🚀", nested: { list: [1, 2.5, null, true] } };
  const created = await container.items.create(item);
  assert.equal(created.statusCode, 201);
  assert.deepEqual(withoutSystem(created.resource), item);
  const { resource, etag, requestCharge, statusCode } = await container.item("1", "a").read();
  assert.equal(statusCode, 200);
  assert.deepEqual(resource, created.resource);
  assert.equal(etag, resource._etag);
  assert.ok(requestCharge > 0 && resource._rid && resource._self && resource._ts);
});

scenario("a missing item is not found and a second one conflicts", async (account) => {
  const container = await account.filled(2);
  await refused(409, () => container.items.create({ id: "1", pk: "key-1" }));
  const missing = await container.item("nobody", "key-1").read();
  assert.equal(missing.statusCode, 404);
  assert.equal(missing.resource, undefined);
  await refused(404, () => container.item("1", "another key").read());
  await refused(404, () => container.item("nobody", "key-1").delete());
  await refused(404, () => container.item("nobody", "key-1").replace({ id: "nobody", pk: "key-1" }));
});

scenario("partition keys of every type find their items", async (account) => {
  const container = await account.container();
  const keys = ["text", "", 0, 1, -1.5, 1e300, true, false, null];
  for (const [index, pk] of keys.entries()) await container.items.create({ id: String(index), pk });
  for (const [index, pk] of keys.entries()) {
    const { resource } = await container.item(String(index), pk).read();
    assert.equal(resource?.pk, pk, String(pk));
  }
});

scenario("an item without a partition key is found again", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1" });
  assert.equal((await container.item("1", undefined).read()).resource?.id, "1");
});

scenario("ids with unusual characters are found again", async (account) => {
  const container = await account.container();
  for (const id of ["with space", "ünïcödé", "percent%20sign", "plus+and=and@", "quote'\"", "dots.and,commas;"]) {
    await container.items.create({ id, pk: "a" });
    assert.equal((await container.item(id, "a").read()).resource?.id, id, id);
    await container.item(id, "a").delete();
  }
});

scenario("an id is made up when there is none", async (account) => {
  const container = await account.container();
  const { resource } = await container.items.create({ pk: "a" });
  assert.equal(resource.id.length, 36);
});

scenario("an upsert creates and then replaces", async (account) => {
  const container = await account.container();
  assert.equal((await container.items.upsert({ id: "1", pk: "a", v: 1 })).statusCode, 201);
  assert.equal((await container.items.upsert({ id: "1", pk: "a", v: 2 })).statusCode, 200);
  assert.equal((await container.item("1", "a").read()).resource.v, 2);
});

scenario("a replaced item is the new one whole", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "a", old: true });
  const { resource } = await container.item("1", "a").replace({ id: "1", pk: "a", new: true });
  assert.deepEqual(withoutSystem(resource), { id: "1", pk: "a", new: true });
});

scenario("a stale etag is rejected", async (account) => {
  const container = await account.container();
  const { resource: first } = await container.items.create({ id: "1", pk: "a", v: 1 });
  const item = container.item("1", "a");
  const { resource: second } = await item.replace({ id: "1", pk: "a", v: 2 }, ifMatch(first._etag));
  await refused(412, () => item.replace({ id: "1", pk: "a", v: 3 }, ifMatch(first._etag)));
  await refused(412, () => item.delete(ifMatch(first._etag)));
  await refused(412, () => item.patch([{ op: "set", path: "/v", value: 9 }], ifMatch(first._etag)));
  assert.equal((await item.read()).resource.v, 2);
  await item.delete(ifMatch(second._etag));
  await refused(404, () => item.read());
});

scenario("a read of an unchanged item says so", async (account) => {
  const container = await account.container();
  const { resource } = await container.items.create({ id: "1", pk: "a" });
  const accessCondition = { type: "IfNoneMatch", condition: resource._etag };
  await refused(304, () => container.item("1", "a").read({ accessCondition }));
});

scenario("a patch adds, sets, replaces, removes, increments and moves", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "a", count: 1, list: [1, 3], old: "x", gone: 1, deep: { x: 1 } });
  const { resource } = await container.item("1", "a").patch([
    { op: "add", path: "/list/1", value: 2 },
    { op: "add", path: "/list/-", value: 4 },
    { op: "set", path: "/deep/y", value: { z: [true] } },
    { op: "replace", path: "/old", value: "y" },
    { op: "remove", path: "/gone" },
    { op: "incr", path: "/count", value: 5 },
    { op: "move", from: "/deep/x", path: "/moved" },
  ]);
  const expected = { id: "1", pk: "a", count: 6, list: [1, 2, 3, 4], old: "y", deep: { y: { z: [true] } }, moved: 1 };
  assert.deepEqual(withoutSystem(resource), expected);
});

scenario("a patch is applied only where its condition holds", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "a", v: 1 });
  const patch = { condition: "from c where c.v = 1", operations: [{ op: "incr", path: "/v", value: 1 }] };
  assert.equal((await container.item("1", "a").patch(patch)).resource.v, 2);
  await refused(412, () => container.item("1", "a").patch(patch));
  assert.equal((await container.item("1", "a").read()).resource.v, 2);
});

scenario("a patch that cannot be applied changes nothing", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "a", v: 1 });
  const operations = [{ op: "set", path: "/v", value: 2 }, { op: "remove", path: "/missing" }];
  await refused(400, () => container.item("1", "a").patch(operations));
  await refused(404, () => container.item("nobody", "a").patch(operations));
  assert.equal((await container.item("1", "a").read()).resource.v, 1);
});

scenario("unique keys hold within a partition key", async (account) => {
  const container = await account.container({ uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
  await container.items.create({ id: "1", pk: "a", email: "x" });
  await refused(409, () => container.items.create({ id: "2", pk: "a", email: "x" }));
  await container.items.create({ id: "2", pk: "b", email: "x" });
});

scenario("an item whose time is over is gone", async (account) => {
  const container = await account.container({ defaultTtl: -1 });
  await container.items.create({ id: "1", pk: "a", ttl: 1 });
  const deadline = Date.now() + 10_000;
  while ((await container.item("1", "a").read()).statusCode !== 404) {
    assert.ok(Date.now() < deadline, "the item is still there");
    await sleep(100);
  }
});

scenario("an item that is too large is refused", async (account) => {
  const container = await account.container();
  for (const size of [2 << 20, 5 << 20]) {
    await refused(413, () => container.items.create({ id: "1", pk: "a", text: "x".repeat(size) }));
  }
  await container.items.create({ id: "1", pk: "a", text: "x".repeat(1 << 20) });
});

scenario("all items are read", async (account) => {
  const container = await account.filled(30);
  const { resources } = await container.items.readAll({ maxItemCount: 7 }).fetchAll();
  assert.deepEqual(resources.map(({ number }) => number).sort(ascending), range(0, 30));
});

scenario("all items of a partition key are deleted", async (account) => {
  const container = await account.filled(30);
  await container.deleteAllItemsForPartitionKey("key-3");
  const { resources } = await container.items.readAll().fetchAll();
  assert.equal(resources.length, 27);
  assert.ok(!resources.some(({ pk }) => pk === "key-3"));
});
