// Queries within one partition key and across all of them.

import assert from "node:assert/strict";
import { ascending, numbered, range, refused, scenario } from "../harness.js";

const ITEMS = range(0, 30).map(numbered);

const ask = async (container, query, options = {}) =>
  (await container.items.query(query, options).fetchAll()).resources;

const within = (container, query) => ask(container, query, { partitionKey: "key-3" });

scenario("a query within a partition key sees only its items", async (account) => {
  const container = await account.filled();
  const numbers = (await within(container, "SELECT * FROM c")).map(({ number }) => number);
  assert.deepEqual(numbers.sort(ascending), [3, 13, 23]);
  assert.deepEqual(await within(container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC"), [23, 13, 3]);
  assert.deepEqual(await within(container, "SELECT TOP 1 c.id FROM c ORDER BY c.number"), [{ id: "3" }]);
  assert.deepEqual(await within(container, "SELECT VALUE c.id FROM c ORDER BY c.number OFFSET 1 LIMIT 1"), ["13"]);
});

scenario("aggregates within a partition key are those of all its items", async (account) => {
  const container = await account.filled();
  assert.deepEqual(await within(container, "SELECT VALUE COUNT(1) FROM c WHERE c.tens > 0"), [2]);
  assert.deepEqual(await within(container, "SELECT VALUE MAX(c.number) FROM c"), [23]);
  assert.deepEqual(await within(container, "SELECT DISTINCT VALUE c.pk FROM c"), ["key-3"]);
});

scenario("a filter across partition keys finds its items", async (account) => {
  const container = await account.filled();
  const found = await ask(container, "SELECT * FROM c WHERE c.number >= 10 AND c.parity = 'even'");
  assert.deepEqual(found.map(({ number }) => number).sort(ascending), range(10, 30, 2));
  const joined = await ask(container, "SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE t = 't2' AND c.number < 9");
  assert.deepEqual(joined.sort(), ["2", "5", "8"]);
});

scenario("parameters of every type reach the query", async (account) => {
  const container = await account.filled();
  const query = "SELECT VALUE c.number FROM c WHERE c.parity = @parity AND c.number < @limit AND ARRAY_CONTAINS(@tens, c.tens)";
  const parameters = [
    { name: "@parity", value: "odd" },
    { name: "@limit", value: 25 },
    { name: "@tens", value: [0, 2] },
  ];
  const found = await ask(container, { query, parameters });
  assert.deepEqual(found.sort(ascending), [1, 3, 5, 7, 9, 21, 23]);
});

scenario("results across partition keys come in order", async (account) => {
  const container = await account.filled();
  assert.deepEqual(await ask(container, "SELECT VALUE c.number FROM c ORDER BY c.number"), range(0, 30));
  assert.deepEqual(await ask(container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC"), range(0, 30).reverse());
  const found = await ask(container, "SELECT c.id FROM c WHERE c.parity = 'odd' ORDER BY c.id");
  const expected = ITEMS.filter(({ parity }) => parity === "odd").map(({ id }) => id).sort();
  assert.deepEqual(found.map(({ id }) => id), expected);
});

scenario("results come in the order of several keys where a composite index allows it", async (account) => {
  const indexingPolicy = {
    indexingMode: "consistent",
    includedPaths: [{ path: "/*" }],
    excludedPaths: [],
    compositeIndexes: [[{ path: "/parity", order: "ascending" }, { path: "/number", order: "descending" }]],
  };
  const container = await account.filled(30, { indexingPolicy });
  const found = await ask(container, "SELECT VALUE c.number FROM c ORDER BY c.parity ASC, c.number DESC");
  assert.deepEqual(found, [...range(0, 30, 2).reverse(), ...range(1, 30, 2).reverse()]);
  await refused(400, () => ask(container, "SELECT * FROM c ORDER BY c.parity ASC, c.number ASC"));
});

scenario("aggregates across partition keys are those of all items", async (account) => {
  const container = await account.filled();
  for (const [expression, expected] of [
    ["COUNT(1)", 30],
    ["SUM(c.number)", 435],
    ["AVG(c.number)", 14.5],
    ["MIN(c.number)", 0],
    ["MAX(c.number)", 29],
    ["MAX(c.id)", "9"],
  ]) {
    assert.deepEqual(await ask(container, `SELECT VALUE ${expression} FROM c`), [expected], expression);
  }
  const found = await ask(container, "SELECT COUNT(1) AS n, SUM(c.number) AS total FROM c");
  assert.deepEqual(found, [{ n: 30, total: 435 }]);
});

scenario("groups are formed across partition keys", async (account) => {
  const container = await account.filled();
  const byName = (left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1);
  const counted = await ask(container, "SELECT c.parity, COUNT(1) AS n, MAX(c.number) AS largest FROM c GROUP BY c.parity");
  assert.deepEqual(counted.sort(byName), [
    { parity: "even", n: 15, largest: 28 },
    { parity: "odd", n: 15, largest: 29 },
  ]);
  const averaged = await ask(container, "SELECT c.tens, AVG(c.number) AS average FROM c GROUP BY c.tens");
  assert.deepEqual(averaged.sort(byName), [
    { tens: 0, average: 4.5 },
    { tens: 1, average: 14.5 },
    { tens: 2, average: 24.5 },
  ]);
  const paired = await ask(container, "SELECT c.parity, c.tens, SUM(c.number) AS total FROM c GROUP BY c.parity, c.tens");
  assert.equal(paired.length, 6);
  assert.equal(paired.reduce((sum, { total }) => sum + total, 0), 435);
});

scenario("groups come in the order of their keys", async (account) => {
  const container = await account.filled();
  const sorted = "SELECT c.tens, COUNT(1) AS n, AVG(c.number) AS mean FROM c GROUP BY c.tens ORDER BY c.tens DESC";
  assert.deepEqual(await ask(container, sorted), [
    { tens: 2, n: 10, mean: 24.5 },
    { tens: 1, n: 10, mean: 14.5 },
    { tens: 0, n: 10, mean: 4.5 },
  ]);
  // In the order of an aggregate this SDK cannot merge them, and is told so.
  const beyond = "SELECT c.tens FROM c GROUP BY c.tens ORDER BY COUNT(1)";
  await refused(400, () => ask(container, beyond));
  assert.equal((await within(container, beyond)).length, 3);
});

scenario("an aggregate with an order is one row", async (account) => {
  const container = await account.filled();
  assert.deepEqual(await ask(container, "SELECT VALUE COUNT(c.number) FROM c ORDER BY c.number"), [30]);
  assert.deepEqual(await ask(container, "SELECT VALUE MAX(c.number) FROM c ORDER BY c.parity, c.number DESC"), [29]);
});

scenario("values of different types are unequal", async (account) => {
  const container = await account.container();
  for (const [id, lastName] of Object.entries({ null: null, text: "t", number: 7, flag: true, missing: undefined })) {
    await container.items.create({ id, pk: id, lastName });
  }
  for (const [condition, expected] of [
    ["c.lastName != null", ["flag", "number", "text"]],
    ["NOT (c.lastName = null)", ["flag", "number", "text"]],
    ["c.lastName != 't'", ["flag", "null", "number"]],
    ["(c.lastName != null ? c.lastName : 'ZZ') = 'ZZ'", ["missing", "null"]],
    ["c.lastName < 't'", []],
  ]) {
    const found = await ask(container, `SELECT VALUE c.id FROM c WHERE ${condition}`);
    assert.deepEqual(found.sort(), expected, condition);
  }
  await refused(400, () => ask(container, "SELECT c.order FROM c"));
});

scenario("distinct values are distinct across partition keys", async (account) => {
  const container = await account.filled();
  assert.deepEqual((await ask(container, "SELECT DISTINCT VALUE c.parity FROM c")).sort(), ["even", "odd"]);
  assert.equal((await ask(container, "SELECT DISTINCT c.parity, c.tens FROM c")).length, 6);
  // In order, this SDK takes a bare 0 for the end of a page; the items that have it are left out.
  const sorted = "SELECT DISTINCT VALUE c.tens FROM c WHERE c.tens > 0 ORDER BY c.tens DESC";
  assert.deepEqual(await ask(container, sorted), [2, 1]);
});

scenario("top and offset limit count across partition keys", async (account) => {
  const container = await account.filled();
  assert.deepEqual(await ask(container, "SELECT TOP 4 VALUE c.number FROM c ORDER BY c.number DESC"), [29, 28, 27, 26]);
  assert.equal((await ask(container, "SELECT TOP 12 * FROM c")).length, 12);
  assert.deepEqual(await ask(container, "SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 10 LIMIT 5"), range(10, 15));
  assert.equal((await ask(container, "SELECT * FROM c OFFSET 25 LIMIT 10")).length, 5);
});

scenario("a query that is not one is refused", async (account) => {
  const container = await account.filled(3);
  await refused(400, () => ask(container, "SELEC * FROM c"));
});

scenario("metrics of a query are told when asked for", async (account) => {
  const container = await account.filled(5);
  const options = { partitionKey: "key-1", populateQueryMetrics: true, populateIndexMetrics: true };
  const { requestCharge, queryMetrics } = await container.items.query("SELECT * FROM c", options).fetchNext();
  assert.ok(requestCharge > 0);
  assert.ok(queryMetrics);
});
