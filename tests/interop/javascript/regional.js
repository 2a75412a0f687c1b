// Accounts with several regions, each an emulator of its own, and what is done to them and beside them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { CosmosClient } from "@azure/cosmos";
import { ascending, numbered, range } from "./harness.js";

export const WEST = "West US";
export const EAST = "East US";
export const NORTH = "North Europe";
export const REGIONS = [WEST, EAST, NORTH];

// What is waited for takes a few seconds at most; this only ends a wait for something that never comes.
const TIMEOUT_MILLISECONDS = 30_000;

/** Starts the accounts that the scenarios break. */
export class Laboratory {
  constructor(emulator, transport, certificateDir) {
    this.emulator = emulator;
    this.transport = transport;
    this.certificateDir = certificateDir;
  }

  /** Calls `body` with a fresh account. */
  async account(partitions, body) {
    const process = spawn(
      this.emulator,
      ["emulator", "--json", "--port", "0", "--partitions", String(partitions), "--regions", REGIONS.join(","),
        "--replication-delay", "20ms", "--certificate-dir", this.certificateDir],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    let account;
    try {
      const facts = JSON.parse(await firstLine(process));
      const endpoint = this.transport === "TLS" ? facts.endpoint : facts.http_endpoint;
      account = new RegionalAccount(endpoint, facts.http_endpoint, facts.key);
      await body(account);
    } finally {
      account?.clients.forEach((client) => client.dispose());
      process.kill();
    }
  }
}

/** The first line of a process's output, which has to come soon. */
async function firstLine(process) {
  const lines = createInterface({ input: process.stdout });
  const timer = setTimeout(() => lines.close(), TIMEOUT_MILLISECONDS);
  try {
    for await (const line of lines) return line;
    throw new Error("the emulator does not say where it is");
  } finally {
    clearTimeout(timer);
  }
}

/** An account with several regions: clients of it, and its admin API. */
class RegionalAccount {
  constructor(endpoint, adminEndpoint, key) {
    this.endpoint = endpoint;
    this.adminEndpoint = adminEndpoint;
    this.key = key;
    this.clients = [];
  }

  /** The container `outages/items`, through a client that prefers regions and reads what it wrote. */
  async container(...preferredLocations) {
    const connectionPolicy = { enableBackgroundEndpointRefreshing: false, preferredLocations };
    const { endpoint, key } = this;
    const client = new CosmosClient({ endpoint, key, connectionPolicy, consistencyLevel: "Session" });
    this.clients.push(client);
    const { database } = await client.databases.createIfNotExists({ id: "outages" });
    const definition = { id: "items", partitionKey: { paths: ["/pk"], version: 2 } };
    const { container } = await database.containers.createIfNotExists(definition);
    return container;
  }

  async admin(method, path, body) {
    const answer = await fetch(`${this.adminEndpoint}_sidereal/${encodeURI(path)}`, {
      method,
      body: body && JSON.stringify(body),
      headers: { "x-sidereal-key": this.key, "content-type": "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
    });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return JSON.parse(text);
  }

  /** Hands the writes over gracefully, in less time than the service takes. */
  async changeWriteRegion(region) {
    await this.admin("POST", "write-region", { region, announcement_ms: 300, overlap_ms: 500 });
  }

  /** Splits a range of the container, and names its halves. */
  async split(rangeId, takes = 0) {
    const body = { container: "outages/items", range: rangeId, takes_ms: takes };
    return (await this.admin("POST", "partitions/split", body)).ranges;
  }

  /** How many requests about items there were of a sort, such as those to one region. */
  async counted(sort) {
    const { counters } = await this.admin("GET", "counters");
    const wanted = Object.entries({ resource: "Document", ...sort });
    return counters
      .filter((row) => wanted.every(([name, value]) => row[name] === value))
      .reduce((sum, { requests }) => sum + requests, 0);
  }
}

/** Work that goes on beside, one step after the other; the first step that fails ends it. */
class Load {
  constructor(step, first) {
    this.steps = first;
    this.done = this.#run(step);
  }

  async #run(step) {
    try {
      while (!this.stopped) {
        await step(this.steps);
        this.steps += 1;
      }
    } catch (error) {
      this.failure = error;
    }
  }

  /** Waits until so many more steps are done. */
  async goesOn(count = 10) {
    const enough = this.steps + count;
    await this.goesOnUntil(() => this.steps >= enough);
  }

  /** Waits until something is so, while the steps keep succeeding. */
  async goesOnUntil(condition) {
    const before = this.steps;
    const deadline = Date.now() + TIMEOUT_MILLISECONDS;
    while (!(await condition())) {
      this.check();
      assert.ok(Date.now() < deadline, `${this.steps - before} steps later it is still not so`);
      await sleep(20);
    }
  }

  check() {
    if (this.failure) throw new Error(`step ${this.steps} failed: ${this.failure.stack}`, { cause: this.failure });
  }
}

/** Calls `body` with a load that goes on meanwhile, and gives the number of the step that was never begun. */
export async function underLoad(step, body, first = 0) {
  const load = new Load(step, first);
  try {
    await body(load);
  } finally {
    load.stopped = true;
    const timer = new AbortController();
    const late = sleep(TIMEOUT_MILLISECONDS, "late", { signal: timer.signal }).catch(() => {});
    const outcome = await Promise.race([load.done, late]);
    timer.abort();
    assert.notEqual(outcome, "late", `step ${load.steps} hangs`);
  }
  load.check();
  return load.steps;
}

/** Creates the first items of an account, and waits until every region has them. */
export async function fill(account, container, count) {
  for (const number of range(0, count)) await container.items.create(numbered(number));
  await sameEverywhere(account, range(0, count));
}

/** Waits until something is so. */
export async function eventually(condition, sentence) {
  const deadline = Date.now() + TIMEOUT_MILLISECONDS;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `still waiting until ${sentence}`);
    await sleep(20);
  }
}

/** Asks each region for all items, until it has caught up. */
export async function sameEverywhere(account, expected) {
  for (const region of REGIONS) {
    const container = await account.container(region);
    const before = await account.counted({ region, operation: "Query", status: 200 });
    const caughtUp = async () => {
      const { resources } = await container.items.readAll().fetchAll();
      const numbers = resources.map(({ number }) => number).sort(ascending);
      return isDeepStrictEqual(numbers, expected);
    };
    await eventually(caughtUp, `${region} has exactly ${expected.length} items`);
    assert.ok((await account.counted({ region, operation: "Query", status: 200 })) > before, region);
  }
}
