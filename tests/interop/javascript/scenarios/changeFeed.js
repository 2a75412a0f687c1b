// The change feed, pulled.

import assert from "node:assert/strict";
import { ChangeFeedStartFrom } from "@azure/cosmos";
import { ascending, numbered, range, scenario } from "../harness.js";

/** More pages than any of these feeds has. */
const MANY = 100;

const NOT_MODIFIED = 304;

/** The numbers of the changed items, in order, and where to go on from. */
async function changes(container, changeFeedStartFrom, maxItemCount = 100) {
  const iterator = container.items.getChangeFeedIterator({ changeFeedStartFrom, maxItemCount });
  const numbers = [];
  // A feed over several ranges says that one of them has nothing new before it turns to the next.
  let quiet = 0;
  let token;
  for (let page = 0; page < MANY && quiet < 2; page += 1) {
    const answer = await iterator.readNext();
    token = answer.continuationToken;
    quiet = answer.statusCode === NOT_MODIFIED ? quiet + 1 : 0;
    if (answer.statusCode !== NOT_MODIFIED) {
      assert.ok(answer.result.length <= maxItemCount);
      numbers.push(...answer.result.map(({ number }) => number));
    }
  }
  return { numbers, next: ChangeFeedStartFrom.Continuation(token) };
}

scenario("the change feed from the beginning has every item once", async (account) => {
  const container = await account.filled(30);
  await container.items.upsert({ ...numbered(3), changed: true });
  await container.item("4", "key-4").delete();
  const { numbers } = await changes(container, ChangeFeedStartFrom.Beginning());
  assert.deepEqual(numbers.sort(ascending), range(0, 30).filter((number) => number !== 4));
});

scenario("the change feed goes on where it stopped", async (account) => {
  const container = await account.filled(10);
  const first = await changes(container, ChangeFeedStartFrom.Beginning());
  const nothing = await changes(container, first.next);
  assert.deepEqual(nothing.numbers, []);
  await container.items.create(numbered(10));
  await container.items.upsert({ ...numbered(3), changed: true });
  const more = await changes(container, nothing.next);
  assert.deepEqual(more.numbers.sort(ascending), [3, 10]);
});

scenario("the change feed from now has only what comes later", async (account) => {
  const container = await account.filled(10);
  const { numbers, next } = await changes(container, ChangeFeedStartFrom.Now());
  assert.deepEqual(numbers, []);
  await container.items.create(numbered(10));
  assert.deepEqual((await changes(container, next)).numbers, [10]);
});

scenario("the change feed of a partition key has only its items in order", async (account) => {
  const container = await account.filled(30);
  await container.items.upsert({ ...numbered(3), changed: true });
  const { numbers, next } = await changes(container, ChangeFeedStartFrom.Beginning("key-3"));
  assert.deepEqual(numbers, [13, 23, 3]);
  await container.items.upsert({ ...numbered(4), changed: true });
  await container.items.upsert({ ...numbered(13), changed: true });
  assert.deepEqual((await changes(container, next)).numbers, [13]);
});

scenario("the change feed of every range together is that of the container", async (account) => {
  const container = await account.filled(30);
  const found = [];
  for (const feedRange of await container.getFeedRanges()) {
    found.push(...(await changes(container, ChangeFeedStartFrom.Beginning(feedRange))).numbers);
  }
  assert.deepEqual(found.sort(ascending), range(0, 30));
});

scenario("the change feed comes in pages", async (account) => {
  const container = await account.filled(30);
  const { numbers } = await changes(container, ChangeFeedStartFrom.Beginning(), 4);
  assert.deepEqual(numbers.sort(ascending), range(0, 30));
});

scenario("the change feed starts at a time", async (account) => {
  const container = await account.filled(5);
  const hour = 3_600_000;
  const { numbers } = await changes(container, ChangeFeedStartFrom.Time(new Date(Date.now() - hour)));
  assert.deepEqual(numbers.sort(ascending), range(0, 5));
  const later = await changes(container, ChangeFeedStartFrom.Time(new Date(Date.now() + hour)));
  assert.deepEqual(later.numbers, []);
});
