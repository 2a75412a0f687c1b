// Bulk: many operations under many keys, which the SDK sorts by physical partition itself.

import assert from "node:assert/strict";
import { ascending, numbered, range, scenario } from "../harness.js";

const creates = (count) =>
  range(0, count).map((number) => ({
    operationType: "Create",
    partitionKey: `key-${number % 10}`,
    resourceBody: numbered(number),
  }));

const numbersIn = async (container) =>
  (await container.items.readAll().fetchAll()).resources.map(({ number }) => number).sort(ascending);

scenario("a bulk of creates fills every partition", async (account) => {
  const container = await account.container();
  const answers = await container.items.executeBulkOperations(creates(150));
  assert.equal(answers.length, 150);
  assert.ok(answers.every(({ response }) => response?.statusCode === 201), JSON.stringify(answers[0]));
  assert.deepEqual(await numbersIn(container), range(0, 150));
});

scenario("a bulk of mixed operations answers each one for itself", async (account) => {
  const container = await account.filled(6);
  const answers = await container.items.executeBulkOperations([
    { operationType: "Create", partitionKey: "key-1", resourceBody: numbered(1) },
    { operationType: "Upsert", partitionKey: "key-2", resourceBody: { ...numbered(2), tens: 9 } },
    { operationType: "Read", partitionKey: "key-3", id: "3" },
    { operationType: "Replace", partitionKey: "key-4", id: "4", resourceBody: { ...numbered(4), tens: 9 } },
    { operationType: "Patch", partitionKey: "key-5", id: "5", resourceBody: { operations: [{ op: "set", path: "/tens", value: 9 }] } },
    { operationType: "Delete", partitionKey: "key-0", id: "0" },
    { operationType: "Read", partitionKey: "key-0", id: "nobody" },
  ]);
  const statuses = answers.map(({ response, error }) => response?.statusCode ?? error?.code);
  assert.deepEqual(statuses, [409, 200, 200, 200, 200, 204, 404]);
  assert.deepEqual(await numbersIn(container), range(1, 6));
  const { resources } = await container.items.query("SELECT VALUE c.number FROM c WHERE c.tens = 9").fetchAll();
  assert.deepEqual(resources.sort(ascending), [2, 4, 5]);
});

scenario("the older bulk call works as well", async (account) => {
  const container = await account.container();
  const answers = await container.items.bulk(creates(40));
  assert.ok(answers.every(({ statusCode }) => statusCode === 201));
  assert.deepEqual(await numbersIn(container), range(0, 40));
});

scenario("a bulk under hierarchical keys finds its partitions", async (account) => {
  const partitionKey = { paths: ["/parity", "/pk"], kind: "MultiHash", version: 2 };
  const container = await account.container({ partitionKey });
  const operations = creates(40).map((operation) => ({
    ...operation,
    partitionKey: [operation.resourceBody.parity, operation.resourceBody.pk],
  }));
  const answers = await container.items.executeBulkOperations(operations);
  assert.ok(answers.every(({ response }) => response?.statusCode === 201), JSON.stringify(answers[0]));
  assert.deepEqual(await numbersIn(container), range(0, 40));
});
