// Scenarios and their run: each one has the sentence that it proves for a name.

import assert from "node:assert/strict";
import { CosmosClient } from "@azure/cosmos";

const scenarios = [];

/** Registers a scenario; it is called with an `Account`. */
export function scenario(sentence, body) {
  scenarios.push({ sentence, body });
}

/** The account under test and what the scenarios need of it. */
export class Account {
  constructor(endpoint, key, partitions) {
    this.endpoint = endpoint;
    this.key = key;
    this.partitions = partitions;
    const connectionPolicy = { enableBackgroundEndpointRefreshing: false };
    this.client = new CosmosClient({ endpoint, key, connectionPolicy });
    this.count = 0;
  }

  async open() {
    const { database } = await this.client.databases.createIfNotExists({ id: "interop-javascript" });
    this.database = database;
  }

  name(kind) {
    this.count += 1;
    return `${kind}-${this.count}-${process.hrtime.bigint()}`;
  }

  /** A container of the scenario's own. */
  async container(definition = {}, options = {}) {
    const whole = { id: this.name("c"), partitionKey: { paths: ["/pk"], version: 2 }, ...definition };
    const { container } = await this.database.containers.create(whole, options);
    return container;
  }

  /** A container with items `0` to `count - 1`, spread over ten partition keys. */
  async filled(count = 30, definition = {}) {
    const container = await this.container(definition);
    for (let number = 0; number < count; number += 1) {
      await container.items.create(numbered(number));
    }
    return container;
  }
}

/** The item that the queries are written for. */
export function numbered(number) {
  return {
    id: String(number),
    pk: `key-${number % 10}`,
    number,
    parity: number % 2 === 0 ? "even" : "odd",
    tens: Math.floor(number / 10),
    tags: [`t${number % 3}`, "all"],
  };
}

/** Awaits a call that must be refused with a status, and returns the refusal. */
export async function refused(status, call) {
  let answer;
  try {
    answer = await call();
  } catch (error) {
    assert.equal(error.code, status, `${error.code}: ${error.message}`);
    return error;
  }
  // A point operation on a missing item is answered rather than thrown.
  if (answer && answer.statusCode === status) return answer;
  throw new Error(`expected ${status}, got an answer${answer ? ` with ${answer.statusCode}` : ""}`);
}

/** An item as its writer wrote it. */
export function withoutSystem(item) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !name.startsWith("_")));
}

export const range = (from, to, step = 1) =>
  Array.from({ length: Math.ceil((to - from) / step) }, (_, index) => from + index * step);

export const ascending = (left, right) => left - right;

/** Runs every scenario whose sentence contains `wanted`, and returns how many failed. */
export async function run(account, wanted) {
  let failed = 0;
  const leftOut = JSON.parse(process.env.INTEROP_LEFT_OUT ?? "[]");
  const chosen = scenarios.filter(({ sentence }) => sentence.includes(wanted) && !leftOut.includes(sentence));
  for (const { sentence, body } of chosen) {
    try {
      await body(account);
      console.log(`  ok      ${sentence}`);
    } catch (error) {
      failed += 1;
      console.log(`  FAILED  ${sentence}\n${error.stack ?? JSON.stringify(error)}`);
    }
  }
  console.log(`${chosen.length - failed} passed, ${failed} failed`);
  return failed;
}
