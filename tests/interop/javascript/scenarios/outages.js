// Outages: the account is broken under a client that goes on reading and writing.

import assert from "node:assert/strict";
import { ascending, numbered, range, scenario } from "../harness.js";
import { EAST, NORTH, WEST, eventually, fill, sameEverywhere, underLoad } from "../regional.js";

const COUNT = 30;

const read = async (container, number) => {
  const { resource, statusCode } = await container.item(String(number), `key-${number % 10}`).read();
  assert.equal(resource?.number, number, `item ${number}: ${statusCode}`);
};

/**
 * Reads an item that was written a moment ago, until it has arrived where the client reads. A region that is
 * behind says so (404/1002); the SDK then forgets its session token and asks the same region again.
 */
const readWritten = (container, number) =>
  eventually(async () => {
    const { resource } = await container.item(String(number), `key-${number % 10}`).read();
    return resource?.number === number;
  }, `item ${number} is there`);

/** The numbers from one on, by a query that asks every range by its id. */
const inOrder = async (container, from = 0) => {
  const query = "SELECT VALUE c.number FROM c WHERE c.number >= @from ORDER BY c.number";
  const parameters = [{ name: "@from", value: from }];
  return (await container.items.query({ query, parameters }, { maxItemCount: 7 }).fetchAll()).resources;
};

/** Reads an item, and every third time finds it by a query over all partitions. */
const readOneAndFindIt = (container) => async (step) => {
  const number = step % COUNT;
  await read(container, number);
  if (step % 3 === 0) assert.deepEqual(await inOrder(container, number), range(number, COUNT));
};

scenario("reads go on while their region answers that it is unavailable", async (laboratory) => {
  await laboratory.account(2, async (account) => {
    const container = await account.container(EAST, NORTH, WEST);
    await fill(account, container, COUNT);
    await underLoad(readOneAndFindIt(container), async (load) => {
      await load.goesOnUntil(async () => (await account.counted({ region: EAST, operation: "Read", status: 200 })) > 20);
      // A 503 does not make the SDK leave the region: each read asks there first, and then once elsewhere.
      const operations = ["Read", "Query", "QueryPlan"];
      for (const operation of operations) {
        const condition = { region: EAST, resource: "Document", operation };
        await account.admin("POST", "faults", { condition, effect: { kind: "answer", status: 503 } });
      }
      await load.goesOn(30);
      for (const operation of operations) {
        assert.ok((await account.counted({ region: EAST, operation, status: 503 })) > 0, operation);
      }
      assert.deepEqual(await account.admin("DELETE", "faults"), { removed: operations.length });
      const answered = await account.counted({ region: EAST, operation: "Read", status: 200 });
      await load.goesOnUntil(
        async () => (await account.counted({ region: EAST, operation: "Read", status: 200 })) > answered + 20,
      );
    });
  });
});

scenario("reads go on when their region is removed from the account", async (laboratory) => {
  await laboratory.account(2, async (account) => {
    const container = await account.container(EAST, NORTH, WEST);
    await fill(account, container, COUNT);
    await underLoad(readOneAndFindIt(container), async (load) => {
      await load.goesOnUntil(async () => (await account.counted({ region: EAST, operation: "Read", status: 200 })) > 20);
      await account.admin("POST", `regions/${EAST}/remove`);
      await load.goesOnUntil(async () => (await account.counted({ region: NORTH, operation: "Read", status: 200 })) > 20);
    });
    assert.ok((await account.counted({ region: EAST, status: 403, sub_status: 1008 })) > 0);
    await container.items.create(numbered(COUNT));
    await readWritten(container, COUNT);
    assert.deepEqual(await inOrder(container), range(0, COUNT + 1));
  });
});

scenario("no acknowledged write is lost when the write region changes and changes back", async (laboratory) => {
  await laboratory.account(2, async (account) => {
    const container = await account.container(WEST, EAST, NORTH);
    const acknowledged = [];
    const writeAndRead = async (number) => {
      await container.items.create(numbered(number));
      acknowledged.push(number);
      await readWritten(container, number);
    };
    const created = (region) => account.counted({ region, operation: "Create", status: 201 });
    const count = await underLoad(writeAndRead, async (load) => {
      await load.goesOn(20);
      for (const [from, to] of [[WEST, EAST], [EAST, WEST]]) {
        const before = await created(to);
        await account.changeWriteRegion(to);
        await load.goesOnUntil(async () => (await created(to)) > before + 20);
        const refused = { region: from, operation: "Create", status: 403, sub_status: 3 };
        assert.ok((await account.counted(refused)) > 0, from);
      }
    });
    assert.deepEqual(acknowledged, range(0, count));
    await sameEverywhere(account, acknowledged);
  });
});

// A query that finds a range gone (410/1002) asks the same range again, for ever, for as long as the client's
// list of ranges has it: the SDK keeps that answer among the results and never gets to the place where it
// would read the ranges anew. A bulk does read them anew. So the queries that ask range by range come after a
// bulk that came after the split; whatever else an application does goes on during the split.
scenario("every item is found exactly once while the ranges split", async (laboratory) => {
  await laboratory.account(1, async (account) => {
    const container = await account.container(WEST);
    const elsewhere = await account.container(EAST);
    let count = 0;
    const next = (many) => range(count, (count += many)).map(numbered);

    const bulk = async (items) => {
      const operations = items.map((item) => ({ operationType: "Create", partitionKey: item.pk, resourceBody: item }));
      const answers = await container.items.executeBulkOperations(operations);
      assert.ok(answers.every(({ response }) => response?.statusCode === 201), JSON.stringify(answers));
    };
    const create = async (item) => {
      assert.equal((await container.items.create(item)).statusCode, 201);
      await readWritten(elsewhere, item.number);
    };
    const findOnce = async (to) => {
      const query = `SELECT VALUE c.number FROM c WHERE c.number < ${to}`;
      const { resources } = await container.items.query(query, { maxItemCount: 7 }).fetchAll();
      assert.deepEqual(resources.sort(ascending), range(0, to));
    };
    const during = async (change) => {
      const before = count;
      const creates = next(20).map(create);
      const finds = range(0, 5).map(() => findOnce(before));
      const reads = range(0, before).map((number) => read(container, number));
      const [changed] = await Promise.all([change(), bulk(next(40)), ...creates, ...finds, ...reads]);
      await bulk(next(20));
      assert.deepEqual(await inOrder(container), range(0, count));
      return changed;
    };

    await during(async () => {});
    const [left, right] = await during(() => account.split("0"));
    await during(() => account.split(right));
    await during(() => account.split(left, 300));
    await during(async () => {});
    assert.ok((await account.counted({ operation: "Batch", status: 410 })) > 0);
    assert.equal((await container.readPartitionKeyRanges().fetchAll()).resources.length, 4);
    await sameEverywhere(account, range(0, count));
  });
});
