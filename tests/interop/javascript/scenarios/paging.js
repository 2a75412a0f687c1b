// Pages and continuations.

import assert from "node:assert/strict";
import { ascending, range, refused, scenario } from "../harness.js";

/** More pages than any of these queries has. */
const MANY = 100;

const pagesOf = async (iterator) => {
  const pages = [];
  while (iterator.hasMoreResults() && pages.length < MANY) {
    const { resources } = await iterator.fetchNext();
    if (resources?.length) pages.push(resources);
  }
  return pages;
};

const elevenUnderOneKey = async (account) => {
  const container = await account.container();
  for (const number of range(0, 11)) await container.items.create({ id: String(number), pk: "a", number });
  return container;
};

scenario("a query within a partition key comes in pages", async (account) => {
  const container = await elevenUnderOneKey(account);
  const query = "SELECT VALUE c.number FROM c ORDER BY c.number";
  const pages = await pagesOf(container.items.query(query, { partitionKey: "a", maxItemCount: 4 }));
  assert.deepEqual(pages, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]);
});

scenario("a query goes on from the continuation of a page", async (account) => {
  const container = await elevenUnderOneKey(account);
  const query = "SELECT VALUE c.number FROM c";
  const first = await container.items.query(query, { partitionKey: "a", maxItemCount: 4 }).fetchNext();
  assert.equal(first.resources.length, 4);
  assert.ok(first.continuationToken);
  const options = { partitionKey: "a", maxItemCount: 4, continuationToken: first.continuationToken };
  const rest = await container.items.query(query, options).fetchAll();
  assert.deepEqual([...first.resources, ...rest.resources].sort(ascending), range(0, 11));
});

scenario("a filter across partition keys comes in pages", async (account) => {
  const container = await account.filled(30);
  const query = "SELECT VALUE c.number FROM c WHERE c.number < 25";
  const pages = await pagesOf(container.items.query(query, { maxItemCount: 4 }));
  assert.deepEqual(pages.flat().sort(ascending), range(0, 25));
  assert.ok(pages.every((page) => page.length <= 4));
});

scenario("a sorted query across partition keys comes in pages", async (account) => {
  const container = await account.filled(30);
  const query = "SELECT VALUE c.number FROM c ORDER BY c.number";
  const pages = await pagesOf(container.items.query(query, { maxItemCount: 7 }));
  assert.deepEqual(pages.flat(), range(0, 30));
  assert.ok(pages.every((page) => page.length <= 7));
});

scenario("a sorted query across partition keys goes on from its continuation", async (account) => {
  const container = await account.filled(30);
  const query = "SELECT VALUE c.number FROM c ORDER BY c.number";
  const seen = [];
  let continuationToken;
  for (let page = 0; page < MANY; page += 1) {
    const options = { maxItemCount: 7, continuationToken, enableQueryControl: true };
    const answer = await container.items.query(query, options).fetchNext();
    seen.push(...(answer.resources ?? []));
    continuationToken = answer.continuationToken;
    if (!continuationToken) break;
  }
  assert.deepEqual(seen, range(0, 30));
});

scenario("a page that ends with the last item is the last one", async (account) => {
  const container = await elevenUnderOneKey(account);
  await container.item("10", "a").delete();
  const lengths = [];
  const iterator = container.items.query("SELECT VALUE c.number FROM c", { partitionKey: "a", maxItemCount: 5 });
  while (iterator.hasMoreResults() && lengths.length < MANY) {
    const { resources } = await iterator.fetchNext();
    lengths.push(resources?.length ?? 0);
  }
  assert.deepEqual(lengths, [5, 5]);
});

scenario("a continuation is JSON and junk is refused", async (account) => {
  const container = await elevenUnderOneKey(account);
  const options = { partitionKey: "a", maxItemCount: 4 };
  const { continuationToken } = await container.items.query("SELECT * FROM c", options).fetchNext();
  const [{ token, range: keys }] = JSON.parse(continuationToken);
  assert.match(token, /^-RID:~.*#RT:1#TRC:4#/);
  assert.deepEqual(Object.keys(keys), ["min", "max"]);
  const junk = { ...options, continuationToken: "junk" };
  const error = await refused(400, () => container.items.query("SELECT * FROM c", junk).fetchNext());
  assert.match(error.message ?? error.body?.message, /Invalid Continuation Token/);
});

scenario("large results come in pages without being asked for", async (account) => {
  const container = await account.container();
  for (const number of range(0, 6)) {
    await container.items.create({ id: String(number), pk: "a", text: "x".repeat(1 << 20) });
  }
  const pages = await pagesOf(container.items.query("SELECT * FROM c", { partitionKey: "a", maxItemCount: 100 }));
  assert.ok(pages.length > 1);
  assert.equal(pages.flat().length, 6);
});
