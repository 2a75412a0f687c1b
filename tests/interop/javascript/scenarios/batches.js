// Transactional batches.

import assert from "node:assert/strict";
import { scenario, withoutSystem } from "../harness.js";

const everything = async (container) => (await container.items.readAll().fetchAll()).resources;

scenario("a batch of every operation succeeds as a whole", async (account) => {
  const container = await account.container();
  for (const id of ["read", "replace", "patch", "delete"]) await container.items.create({ id, pk: "a", v: 1 });
  const { code, result } = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "create", pk: "a" } },
      { operationType: "Upsert", resourceBody: { id: "upsert", pk: "a" } },
      { operationType: "Read", id: "read" },
      { operationType: "Replace", id: "replace", resourceBody: { id: "replace", pk: "a", v: 2 } },
      { operationType: "Patch", id: "patch", resourceBody: { operations: [{ op: "incr", path: "/v", value: 2 }] } },
      { operationType: "Delete", id: "delete" },
    ],
    "a",
  );
  assert.equal(code, 200);
  assert.deepEqual(result.map(({ statusCode }) => statusCode), [201, 201, 200, 200, 200, 204]);
  assert.equal(result[2].resourceBody.v, 1);
  assert.equal(result[4].resourceBody.v, 3);
  const ids = (await everything(container)).map(({ id }) => id).sort();
  assert.deepEqual(ids, ["create", "patch", "read", "replace", "upsert"]);
});

scenario("a failed batch leaves nothing behind", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "there", pk: "a" });
  const { code, result } = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "new", pk: "a" } },
      { operationType: "Create", resourceBody: { id: "there", pk: "a" } },
      { operationType: "Upsert", resourceBody: { id: "later", pk: "a" } },
    ],
    "a",
  );
  assert.equal(code, 207);
  assert.deepEqual(result.map(({ statusCode }) => statusCode), [424, 409, 424]);
  assert.deepEqual((await everything(container)).map(({ id }) => id), ["there"]);
});

scenario("a batch honours etags", async (account) => {
  const container = await account.container();
  const { resource } = await container.items.create({ id: "1", pk: "a", v: 1 });
  const body = { id: "1", pk: "a", v: 2 };
  const replace = [{ operationType: "Replace", id: "1", resourceBody: body, ifMatch: resource._etag }];
  assert.equal((await container.items.batch(replace, "a")).result[0].statusCode, 200);
  const stale = await container.items.batch(replace, "a");
  assert.deepEqual([stale.code, stale.result[0].statusCode], [207, 412]);
  assert.deepEqual(withoutSystem((await container.item("1", "a").read()).resource), body);
});

scenario("a batch may ask for no bodies in return", async (account) => {
  const container = await account.container();
  const create = [{ operationType: "Create", resourceBody: { id: "1", pk: "a" } }];
  const { code, result } = await container.items.batch(create, "a", { contentResponseOnWriteEnabled: false });
  assert.deepEqual([code, result[0].statusCode], [200, 201]);
  assert.ok(!result[0].resourceBody, JSON.stringify(result[0]));
  assert.equal((await everything(container)).length, 1);
});
